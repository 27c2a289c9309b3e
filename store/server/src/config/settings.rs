//! From one text per flag to a [`Config`] that can be served: what depends on several flags.

use std::path::PathBuf;
use std::time::Duration;

use cluster::lease_ttl_min_seconds;

use super::configuration::{AutoCompaction, Config};
use super::error::Error;
use super::flags::Flag;
use super::gates::SET_MEMBER_LOCAL_ADDR;
use super::gather::Gathered;
use super::urls::{Address, Url};
use super::{durability, founders, log_rotation, tls_flags, traces, users, values};

/// A longer election timeout is taken for a mistake of units.
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(50);

/// Reads and checks all settings.
pub(super) fn read(gathered: &mut Gathered) -> Result<Config, Error> {
    let mut config = Config::unset();
    for flag in Flag::all() {
        flag.set(&mut config, gathered.text(flag.name))?;
    }
    elections(gathered, &mut config)?;
    founders::read(gathered, &mut config)?;
    addresses(gathered, &mut config)?;
    tls_flags::read(gathered, &mut config)?;
    log_rotation::read(gathered, &mut config)?;
    if config.node.directory.as_os_str().is_empty() {
        config.node.directory = PathBuf::from(format!("{}.inkstone", config.name));
    }
    config.users = users::read(gathered)?;
    config.clients.traces = traces::read(gathered)?;
    config.auto_compaction = auto_compaction(gathered)?;
    config.durability = durability::read(gathered)?;
    config.durability.apply_to(&mut config.node);
    // The strict check is done by the member that a client asks (reconfiguration.rs).
    config.node.replica.strict_reconfiguration = false;
    let response_bytes_max = config.message_bytes_max();
    let machine = &mut config.node.replica.machine;
    machine.checks_callers = true;
    machine.watch.response_bytes_max = response_bytes_max;
    machine.lease_ttl_min_seconds = lease_ttl_min_seconds(config.node.replica.election_timeout);
    corruption_checks(&mut config)?;
    let gates = &config.corruption.gates;
    config.addresses.connects_from_advertised = gates.is_open(SET_MEMBER_LOCAL_ADDR);
    config.warnings = warnings(gathered, &config);
    Ok(config)
}

fn addresses(gathered: &Gathered, config: &mut Config) -> Result<(), Error> {
    const LISTEN: &str = "listen-client-urls";
    let addresses = &mut config.addresses;
    if addresses.listen_client.is_empty() {
        return Err(Error::bad(LISTEN, "", "write at least one URL"));
    }
    addresses.awaits_peers = gathered.is_given("listen-peer-urls");
    if addresses.awaits_peers || config.cluster.founders.len() > 1 {
        ports_differ(&addresses.listen_client, &addresses.listen_peer)?;
    }
    // The server cannot guess how clients reach it.
    if gathered.is_given(LISTEN) && !gathered.is_given("advertise-client-urls") {
        let what =
            "--advertise-client-urls is required when --listen-client-urls is set explicitly";
        return Err(Error::Conflict(what.to_owned()));
    }
    if gathered.is_given("initial-advertise-peer-urls") {
        addresses.announced_peer = addresses.advertise_peer.clone();
    }
    Ok(())
}

/// Refuses a socket for both clients and members: they speak different protocols.
fn ports_differ(clients: &[Url], peers: &[Url]) -> Result<(), Error> {
    let shared = clients.iter().find_map(|client| {
        let peer = peers
            .iter()
            .find(|peer| meet(client.address(), peer.address()))?;
        Some((client.as_str(), peer.as_str()))
    });
    match shared {
        None => Ok(()),
        Some((client, peer)) => Err(Error::Conflict(format!(
            "--listen-client-urls has {client} and --listen-peer-urls {peer}: clients and \
             other members need a port each, by custom 2379 and 2380"
        ))),
    }
}

/// Whether both addresses would be one socket.
fn meet(one: &Address, other: &Address) -> bool {
    let (
        Address::Tcp { host, port },
        Address::Tcp {
            host: with,
            port: at,
        },
    ) = (one, other)
    else {
        return one == other;
    };
    let is_any = |host: &str| matches!(host, "" | "0.0.0.0" | "::");
    port == at && *port != 0 && (host == with || is_any(host) || is_any(with))
}

/// etcd's rules for the two times of an election, in etcd's words, and warnings for a member
/// that holds none.
fn elections(gathered: &Gathered, config: &mut Config) -> Result<(), Error> {
    const HEARTBEAT: &str = "heartbeat-interval";
    const ELECTION: &str = "election-timeout";
    let times = (
        config.node.replica.heartbeat_interval,
        config.node.replica.election_timeout,
    );
    let (heartbeat, election) = (times.0.as_millis(), times.1.as_millis());
    if heartbeat.saturating_mul(5) > election {
        return Err(Error::Conflict(format!(
            "--election-timeout[{election}ms] should be at least as 5 times as \
             --heartbeat-interval[{heartbeat}ms]"
        )));
    }
    if times.1 > ELECTION_TIMEOUT_MAX {
        let max = ELECTION_TIMEOUT_MAX.as_millis();
        let rule = format!("is too long, and should be set less than {max}ms");
        return Err(Error::bad(ELECTION, &election.to_string(), rule));
    }
    if gathered.is_changed(HEARTBEAT)? {
        config.warnings_alone.push(format!(
            "--{HEARTBEAT}={heartbeat} has no effect: a single node sends no heartbeats"
        ));
    }
    if gathered.is_changed(ELECTION)? {
        config.warnings_alone.push(format!(
            "--{ELECTION}={election} starts no election on a single node; it sets how long \
             requests wait and how short a lease may be"
        ));
    }
    Ok(())
}

/// etcd's rule for the interval, in its words; and what follows from the gates.
fn corruption_checks(config: &mut Config) -> Result<(), Error> {
    if config.corruption.compacted_interval.is_zero() {
        return Err(Error::bad(
            "compact-hash-check-time",
            "0s",
            "must be >0 (set to 0s)",
        ));
    }
    let machine = &mut config.node.replica.machine;
    machine.hash_every_compaction = config.corruption.after_compactions();
    Ok(())
}

fn auto_compaction(gathered: &Gathered) -> Result<Option<AutoCompaction>, Error> {
    const RETENTION: &str = "auto-compaction-retention";
    let text = gathered.text(RETENTION);
    let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
    // As in etcd, the mode is checked even if automatic compaction is off.
    let compaction = match (gathered.text("auto-compaction-mode"), number) {
        ("periodic" | "revision", Some(0)) => return Ok(None),
        ("periodic", Some(hours)) => {
            let hours = u32::try_from(hours).unwrap_or(u32::MAX);
            AutoCompaction::Periodic(Duration::from_secs(3600) * hours)
        }
        ("periodic", None) => AutoCompaction::Periodic(values::duration(RETENTION, text)?),
        ("revision", Some(revisions)) => AutoCompaction::Revision(revisions),
        ("revision", None) => {
            return Err(Error::bad(RETENTION, text, "write a number of revisions"));
        }
        (mode, _) => {
            let remedy = "write periodic or revision";
            return Err(Error::bad("auto-compaction-mode", mode, remedy));
        }
    };
    Ok(Some(compaction).filter(|kept| *kept != AutoCompaction::Periodic(Duration::ZERO)))
}

fn warnings(gathered: &mut Gathered, config: &Config) -> Vec<String> {
    let mut warnings = std::mem::take(&mut gathered.warnings);
    warnings.extend(config.corruption.gates.warning());
    if config.addresses.connects_from_advertised && config.addresses.local().is_none() {
        // etcd's words, up to the colon.
        let text = "unable to set a member local address due to lack of suitable local \
                    addresses: --initial-advertise-peer-urls has none that is a number";
        warnings.push(text.to_owned());
    }
    let is_open = |url: &Url| matches!(url.address(), Address::Tcp { host, .. } if host != "localhost" && !is_loopback(host));
    let mut plain = config
        .addresses
        .listen_client
        .iter()
        .filter(|it| !it.is_secure());
    if plain.any(is_open) {
        let text = "clients are served without TLS on an open address";
        warnings.push(text.to_owned());
    }
    warnings
}

fn is_loopback(host: &str) -> bool {
    host.parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_loopback())
}
