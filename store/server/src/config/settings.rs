//! From one text per flag to a [`Config`] that can be served.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::flags::{Flag, Kind};
use super::gather::Gathered;
use super::{
    AutoCompaction, Config, Error, LogConfig, LogFormat, LogOutput, Place, ReadMode, Url,
    durability, founders, peer_secret, urls, values,
};

/// etcd's default quota.
const QUOTA_BYTES: u64 = 2 << 30;
/// A longer election timeout is taken for a mistake of units.
const ELECTION_MILLISECONDS_MAX: u64 = 50_000;
/// Allowed sizes of a segment.
const SEGMENT_BYTES: RangeInclusive<u64> = 1 << 20..=128 << 20;
/// The index of an empty store takes some of it; less is taken for a mistake of units.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// With a shorter interval the server would be busy with notices.
const WATCH_PROGRESS_MIN: Duration = Duration::from_millis(100);

/// Parses and checks all settings.
pub(super) fn read(mut gathered: Gathered) -> Result<Config, Error> {
    let elections = elections(&gathered)?;
    let name = gathered.text("name").to_owned();
    let advertise_peer = hosts(&gathered, "initial-advertise-peer-urls")?;
    let listed = founders::read(&gathered, &name, &advertise_peer)?;
    let listen_client = bind(&gathered, "listen-client-urls")?;
    if listen_client.is_empty() {
        return Err(Error::bad(
            "listen-client-urls",
            "",
            "write at least one URL",
        ));
    }
    let listen_peer = bind(&gathered, "listen-peer-urls")?;
    let awaits_peers = gathered.is_given("listen-peer-urls");
    if awaits_peers || listed.founders.len() > 1 {
        ports_differ(&listen_client, &listen_peer)?;
    }
    let keepalive_interval = duration(&gathered, "grpc-keepalive-interval")?;
    Ok(Config {
        data_directory: data_directory(&gathered, &name),
        listen_client,
        listen_client_http: bind(&gathered, "listen-client-http-urls")?,
        listen_metrics: bind(&gathered, "listen-metrics-urls")?,
        listen_peer,
        awaits_peers,
        peer_secret: peer_secret::read(&gathered)?,
        advertise_client: advertise_client(&gathered)?,
        cluster_token: gathered.text("initial-cluster-token").to_owned(),
        quota_bytes: quota(&gathered)?,
        txn_operations_max: bounded(&gathered, "max-txn-ops", u64::from(u32::MAX))? as usize,
        request_bytes_max: bounded(&gathered, "max-request-bytes", 1 << 30)? as usize,
        concurrent_streams_max: bounded(&gathered, "max-concurrent-streams", u64::from(u32::MAX))?
            as u32,
        keepalive_interval: Some(keepalive_interval).filter(|interval| !interval.is_zero()),
        keepalive_timeout: duration(&gathered, "grpc-keepalive-timeout")?,
        share_port: boolean(&gathered, "socket-reuse-port")?,
        watch_progress_interval: duration(&gathered, "watch-progress-notify-interval")?
            .max(WATCH_PROGRESS_MIN),
        slow_request: duration(&gathered, "warning-unary-request-duration")?,
        long_turn: duration(&gathered, "warning-long-turn-duration")?,
        auto_compaction: auto_compaction(&gathered)?,
        durability: durability::read(&mut gathered)?,
        accept_lost_tail: boolean(&gathered, "accept-lost-tail")?,
        read_mode: read_mode(&gathered)?,
        segment_bytes: segment_bytes(&gathered)?,
        memory_bytes_max: memory_bytes_max(&gathered)?,
        gateway: boolean(&gathered, "enable-grpc-gateway")?,
        metrics_extensive: metrics_extensive(&gathered)?,
        origins: names(&gathered, "cors"),
        hosts: names(&gathered, "host-whitelist"),
        log: log(&gathered)?,
        warnings: warnings(&mut gathered)?,
        name,
        announced_peer: match gathered.is_given("initial-advertise-peer-urls") {
            true => advertise_peer.clone(),
            false => Vec::new(),
        },
        advertise_peer,
        founders: listed.founders,
        joins: listed.joins,
        cannot_begin: listed.misfit,
        entries_kept_max: bounded(&gathered, "snapshot-catchup-entries", u64::from(u32::MAX))?
            as usize,
        bytes_kept_max: values::unsigned(
            "snapshot-catchup-bytes",
            gathered.text("snapshot-catchup-bytes"),
        )?,
        strict_reconfiguration: boolean(&gathered, "strict-reconfig-check")?,
        learners_max: learners_max(&gathered)?,
        heartbeat_interval: elections.heartbeat_interval,
        election_timeout: elections.timeout,
        warnings_alone: elections.warnings_alone,
    })
}

/// Whether `text` means the flag's default.
pub(super) fn same(flag: &Flag, text: &str) -> Result<bool, Error> {
    if text == flag.default {
        return Ok(true);
    }
    let (name, default) = (flag.name, flag.default);
    Ok(match flag.kind {
        Kind::Boolean => values::boolean(name, text)? == values::boolean(name, default)?,
        Kind::Unsigned => values::unsigned(name, text)? == values::unsigned(name, default)?,
        Kind::Signed => values::signed(name, text)? == values::signed(name, default)?,
        Kind::Duration => values::duration(name, text)? == values::duration(name, default)?,
        Kind::Text | Kind::Urls => text.is_empty(),
    })
}

fn boolean(gathered: &Gathered, name: &'static str) -> Result<bool, Error> {
    values::boolean(name, gathered.text(name))
}

fn duration(gathered: &Gathered, name: &'static str) -> Result<Duration, Error> {
    values::duration(name, gathered.text(name))
}

fn bounded(gathered: &Gathered, name: &'static str, max: u64) -> Result<u64, Error> {
    let text = gathered.text(name);
    match values::unsigned(name, text)? {
        number if number <= max => Ok(number),
        _ => Err(Error::bad(name, text, format!("at most {max}"))),
    }
}

fn bind(gathered: &Gathered, name: &'static str) -> Result<Vec<Url>, Error> {
    let urls = urls::list(name, gathered.text(name))?;
    urls::check_bind(name, &urls)?;
    Ok(urls)
}

/// Refuses a socket for both clients and members: they speak different protocols.
fn ports_differ(clients: &[Url], peers: &[Url]) -> Result<(), Error> {
    let shared = clients.iter().find_map(|client| {
        let peer = peers
            .iter()
            .find(|peer| meet(client.place(), peer.place()))?;
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
fn meet(one: &Place, other: &Place) -> bool {
    let (
        Place::Tcp { host, port },
        Place::Tcp {
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

fn hosts(gathered: &Gathered, name: &'static str) -> Result<Vec<Url>, Error> {
    let urls = urls::list(name, gathered.text(name))?;
    urls::check_host(name, &urls)?;
    Ok(urls)
}

/// A comma-separated list of names; `*` means all, which is the empty list.
fn names(gathered: &Gathered, name: &'static str) -> Vec<String> {
    let listed = gathered.text(name).split(',').map(str::trim);
    let listed: Vec<_> = listed
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    if listed.iter().any(|part| part == "*") {
        Vec::new()
    } else {
        listed
    }
}

fn data_directory(gathered: &Gathered, name: &str) -> PathBuf {
    match gathered.text("data-dir") {
        "" => PathBuf::from(format!("{name}.inkstone")),
        path => PathBuf::from(path),
    }
}

/// The two times of an election, and warnings for a member that holds none.
struct Elections {
    heartbeat_interval: Duration,
    timeout: Duration,
    warnings_alone: Vec<String>,
}

/// etcd's rules for the two times of an election, in etcd's words.
fn elections(gathered: &Gathered) -> Result<Elections, Error> {
    const HEARTBEAT: &str = "heartbeat-interval";
    const ELECTION: &str = "election-timeout";
    let heartbeat = values::unsigned(HEARTBEAT, gathered.text(HEARTBEAT))?;
    let election = values::unsigned(ELECTION, gathered.text(ELECTION))?;
    if heartbeat == 0 {
        return Err(Error::bad(HEARTBEAT, "0", "must be >0 (set to 0ms)"));
    }
    if election == 0 {
        return Err(Error::bad(ELECTION, "0", "must be >0 (set to 0ms)"));
    }
    if heartbeat.saturating_mul(5) > election {
        return Err(Error::Conflict(format!(
            "--election-timeout[{election}ms] should be at least as 5 times as \
             --heartbeat-interval[{heartbeat}ms]"
        )));
    }
    if election > ELECTION_MILLISECONDS_MAX {
        let rule =
            format!("is too long, and should be set less than {ELECTION_MILLISECONDS_MAX}ms");
        return Err(Error::bad(ELECTION, &election.to_string(), rule));
    }
    let mut warnings_alone = Vec::new();
    if is_changed(gathered, HEARTBEAT, heartbeat) {
        warnings_alone.push(format!(
            "--{HEARTBEAT}={heartbeat} has no effect: a single node sends no heartbeats"
        ));
    }
    if is_changed(gathered, ELECTION, election) {
        warnings_alone.push(format!(
            "--{ELECTION}={election} starts no election on a single node; it sets how long \
             requests wait and how short a lease may be"
        ));
    }
    Ok(Elections {
        heartbeat_interval: Duration::from_millis(heartbeat),
        timeout: Duration::from_millis(election),
        warnings_alone,
    })
}

fn is_changed(gathered: &Gathered, name: &'static str, number: u64) -> bool {
    let default = Flag::named(name).map_or("", |flag| flag.default);
    gathered.is_given(name) && number.to_string() != default
}

fn learners_max(gathered: &Gathered) -> Result<usize, Error> {
    const FLAG: &str = "max-learners";
    let number = values::signed(FLAG, gathered.text(FLAG))?;
    let rule = || Error::bad(FLAG, &number.to_string(), "at least 1");
    let learners = usize::try_from(number).ok().filter(|&number| number > 0);
    learners.ok_or_else(rule)
}

/// The client URLs to advertise. They must be given if the listen URLs are: the server
/// cannot guess how clients reach it.
fn advertise_client(gathered: &Gathered) -> Result<Vec<Url>, Error> {
    let listens = gathered.is_given("listen-client-urls");
    if listens && !gathered.is_given("advertise-client-urls") {
        return Err(Error::Conflict(
            "--advertise-client-urls is required when --listen-client-urls is set explicitly"
                .into(),
        ));
    }
    hosts(gathered, "advertise-client-urls")
}

/// Memory limit of the keys, all of which live in memory.
fn memory_bytes_max(gathered: &Gathered) -> Result<u64, Error> {
    const FLAG: &str = "memory-bytes-max";
    Ok(match values::unsigned(FLAG, gathered.text(FLAG))? {
        0 => environment::real::memory_bytes() / 4 * 3,
        bytes if bytes >= MEMORY_BYTES_MIN => bytes,
        bytes => {
            let rule =
                format!("no key would fit: write bytes, at least {MEMORY_BYTES_MIN} (1 MiB), or 0");
            return Err(Error::bad(FLAG, &bytes.to_string(), rule));
        }
    })
}

fn quota(gathered: &Gathered) -> Result<Option<u64>, Error> {
    const FLAG: &str = "quota-backend-bytes";
    Ok(match values::signed(FLAG, gathered.text(FLAG))? {
        0 => Some(QUOTA_BYTES),
        bytes => u64::try_from(bytes).ok(),
    })
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
            return Err(Error::bad(
                "auto-compaction-mode",
                mode,
                "write periodic or revision",
            ));
        }
    };
    Ok(Some(compaction).filter(|kept| *kept != AutoCompaction::Periodic(Duration::ZERO)))
}

fn segment_bytes(gathered: &Gathered) -> Result<u64, Error> {
    const FLAG: &str = "segment-bytes";
    let text = gathered.text(FLAG);
    match values::unsigned(FLAG, text)? {
        bytes if bytes.is_power_of_two() && SEGMENT_BYTES.contains(&bytes) => Ok(bytes),
        _ => Err(Error::bad(
            FLAG,
            text,
            "write a power of two from 1 MiB (1048576) to 128 MiB (134217728)",
        )),
    }
}

fn read_mode(gathered: &Gathered) -> Result<ReadMode, Error> {
    let text = gathered.text("read-mode");
    let mode = text.parse();
    mode.map_err(|()| Error::bad("read-mode", text, "write read-index or lease"))
}

fn log(gathered: &Gathered) -> Result<LogConfig, Error> {
    let level = match gathered.text("log-level") {
        "debug" => tracing::Level::DEBUG,
        "info" => tracing::Level::INFO,
        "warn" => tracing::Level::WARN,
        "error" | "dpanic" | "panic" | "fatal" => tracing::Level::ERROR,
        text => {
            return Err(Error::bad(
                "log-level",
                text,
                "write debug, info, warn or error",
            ));
        }
    };
    let format = match gathered.text("log-format") {
        "json" => LogFormat::Json,
        "console" => LogFormat::Console,
        text => return Err(Error::bad("log-format", text, "write json or console")),
    };
    let mut outputs = Vec::new();
    for name in gathered.text("log-outputs").split(',').map(str::trim) {
        let output = match name {
            "" | "default" | "stderr" => LogOutput::Stderr,
            "stdout" => LogOutput::Stdout,
            "systemd/journal" => {
                return Err(Error::bad(
                    "log-outputs",
                    name,
                    "write stderr: systemd collects it",
                ));
            }
            path => LogOutput::File(PathBuf::from(path)),
        };
        if !outputs.contains(&output) {
            outputs.push(output);
        }
    }
    Ok(LogConfig {
        level,
        format,
        outputs,
    })
}

fn warnings(gathered: &mut Gathered) -> Result<Vec<String>, Error> {
    let listens = gathered.text("listen-client-urls");
    let open = urls::list("listen-client-urls", listens)?.iter().any(|url| {
        matches!(url.place(), Place::Tcp { host, .. } if host != "localhost" && !is_loopback(host))
    });
    if open {
        let text = "clients are served without TLS and without users on an open address";
        gathered.warn(text.into());
    }
    const GATEWAY: &str = "enable-grpc-gateway";
    if gathered.is_given(GATEWAY) && boolean(gathered, GATEWAY)? {
        gathered.warn(format!(
            "the JSON gateway (--{GATEWAY}) does not exist yet: /v3/* answers 501; use gRPC"
        ));
    }
    Ok(std::mem::take(&mut gathered.warnings))
}

fn metrics_extensive(gathered: &Gathered) -> Result<bool, Error> {
    match gathered.text("metrics") {
        "basic" => Ok(false),
        "extensive" => Ok(true),
        text => Err(Error::bad("metrics", text, "write basic or extensive")),
    }
}

fn is_loopback(host: &str) -> bool {
    host.parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_loopback())
}
