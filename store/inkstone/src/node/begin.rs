//! Start of a member: determines its identity from the options or the directory, and starts
//! the node.
//!
//! ```text
//!   first start:  founders, token ─────────────► ids ──► file MEMBER in the directory
//!                 rosters of running members ──► ids ──► file MEMBER
//!   later starts:                file MEMBER ──► ids
//! ```

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use cluster::{MemberFile, MemberFileError, Network};
use tracing::{info, warn};

use super::introduction::{self, Beginning};
use super::{NodeOptions, founding};
use crate::{Error, Remedy};

/// A started member, with the id of its directory.
pub(super) struct Begun {
    pub node: cluster::Node,
    pub member: u64,
}

/// Starts the member; returns when the data of the directory are recovered.
pub(super) fn begin(options: &NodeOptions) -> Result<Begun, Error> {
    check(options)?;
    let (disk, directory) = (&*options.node.disk, &options.node.directory);
    let mut door = None;
    loop {
        let found = MemberFile::find(disk, directory)?;
        let beginning = match &found {
            Some(kept) => Beginning::kept(kept.clone()),
            None => introduction::introduce(options)?,
        };
        let member = beginning.member.clone();
        let door = match &door {
            Some(door) => door,
            None => door.insert(bind(options, &member)?),
        };
        let node = start_or_go_on(options, beginning, door)?;
        // Another process may have held the directory's lock in between, initialized the
        // directory, and stopped: then begin again.
        if MemberFile::find(disk, directory)? != found {
            node.stop();
            continue;
        }
        match found {
            Some(kept) => tell_ignored(options, &kept),
            None => {
                member.keep(disk, directory).map_err(repair)?;
                info!(directory = %directory.display(), "a new data directory was begun");
            }
        }
        return Ok(Begun {
            node,
            member: member.member,
        });
    }
}

fn check(options: &NodeOptions) -> Result<(), Error> {
    let (heartbeat, election) = (
        options.node.heartbeat_interval,
        options.node.election_timeout,
    );
    let what = if options.name.is_empty() {
        "a member needs a name".to_owned()
    } else if heartbeat < Duration::from_millis(1) || election < heartbeat * 2 {
        format!(
            "an election timeout of {election:?} with a heartbeat interval of {heartbeat:?}: \
             choose at least 1 ms for the interval and twice that for the timeout"
        )
    } else if options.joining.is_some() && !options.founders.is_empty() {
        "a member joins a cluster that exists or founds one: leave `join` or the founders out"
            .to_owned()
    } else {
        return options.joining.as_ref().map_or(Ok(()), |it| it.check());
    };
    Err(Error::new(Remedy::CorrectTheCall, what))
}

/// The peer URL of an address, in etcd's form, so that the ids equal those of a server with
/// this address.
pub(super) fn url(address: &str) -> String {
    format!("http://{address}")
}

/// Binds the socket for the other members.
#[expect(
    clippy::disallowed_methods,
    reason = "the one socket of an embedded member"
)]
fn bind(options: &NodeOptions, member: &MemberFile) -> Result<TcpListener, Error> {
    if let Some(listener) = &options.listener {
        return listener.try_clone().map_err(repair);
    }
    let began = || member.peer_urls.first()?.strip_prefix("http://");
    let address = match options.listen.as_deref().or(own_address(options)) {
        Some(address) => address,
        None => began().ok_or_else(|| {
            let what = "the directory does not say where to listen: set `listen`";
            Error::new(Remedy::CorrectTheCall, what)
        })?,
    };
    TcpListener::bind(address).map_err(|error| {
        let what = format!(
            "cannot listen for other members at {address}: {error}; end the process that listens \
             there, or set `listen` to another address"
        );
        Error::new(Remedy::CorrectTheCall, what)
    })
}

/// The address at which other members reach this one, according to the options.
fn own_address(options: &NodeOptions) -> Option<&str> {
    let own = options.founders.iter().find(|it| it.name == options.name);
    let joining = options.joining.as_ref();
    own.map(|own| &*own.address)
        .or(joining.map(|joining| &*joining.address))
}

/// Peer URLs of the other members that the options name.
fn listed_others(options: &NodeOptions) -> Vec<String> {
    let founders = options.founders.iter().filter(|it| it.name != options.name);
    let joined = options.joining.iter().flat_map(|joining| &joining.members);
    let others = founders.map(|founder| &founder.address).chain(joined);
    others.map(|address| url(address)).collect()
}

/// Starts a node that has its data, or knows the members from which it receives them.
fn start_or_go_on(
    options: &NodeOptions,
    mut beginning: Beginning,
    door: &TcpListener,
) -> Result<cluster::Node, Error> {
    let node = start(options, &beginning, door)?;
    if !beginning.contacts.is_empty() || !node.reader().members().is_empty() {
        return Ok(node);
    }
    // The member began to join and was stopped before it received any data. It could not
    // answer the others without knowing their addresses, so it asks for them first.
    node.stop();
    beginning.contacts = introduction::contacts(options, &beginning.member)?;
    start(options, &beginning, door)
}

fn start(
    options: &NodeOptions,
    beginning: &Beginning,
    door: &TcpListener,
) -> Result<cluster::Node, Error> {
    let member = beginning.member.member;
    let mut node = options.node.clone();
    node.machine.member_id = member;
    node.machine.initial_members = beginning.founders.clone();
    node.machine.lease_ttl_min_seconds = lease_ttl_min_seconds(node.election_timeout);
    let network = Network {
        cluster_id: beginning.member.cluster,
        listeners: vec![door.try_clone().map_err(repair)?],
        advertised: own_address(options).map(url).into_iter().collect(),
        contacts: beginning.contacts.clone(),
        listed: listed_others(options),
        secret: options.peer_secret.clone(),
    };
    let node = cluster::Node::start_member(node, network)?;
    let members = node.reader().members();
    if members.is_empty() || members.get(member).is_some() {
        return Ok(node);
    }
    node.stop();
    Err(match members.is_removed(member) {
        true => cluster::Error::Removed { member }.into(),
        false => foreign(&options.node.directory, member),
    })
}

/// The minimum TTL of a lease: one and a half election timeouts, since a shorter lease could
/// not be renewed in time after a change of leader.
fn lease_ttl_min_seconds(election_timeout: Duration) -> i64 {
    let milliseconds = u64::try_from(election_timeout.as_millis()).unwrap_or(u64::MAX / 3);
    i64::try_from((3 * milliseconds).div_ceil(2 * 1000)).unwrap_or(i64::MAX)
}

fn foreign(directory: &Path, member: u64) -> Error {
    let what = format!(
        "the log in {} does not know the member {member:x}: it is that of a store, or of \
         another cluster; choose another directory. A member that has lost its data cannot \
         come back under its old name: remove it, add it again and let it `join`",
        directory.display()
    );
    Error::new(Remedy::Repair, what)
}

/// Warns if the options have other founders or another token than the directory's first
/// start, because they are ignored.
fn tell_ignored(options: &NodeOptions, kept: &MemberFile) {
    if !options.founders.is_empty() && founding::member(options).ok().as_ref() != Some(kept) {
        warn!(
            member = format!("{:x}", kept.member),
            cluster = format!("{:x}", kept.cluster),
            "founders and token are ignored: the data directory has its member and cluster \
             since its first start"
        );
    }
}

fn repair(error: std::io::Error) -> Error {
    Error::new(Remedy::Repair, error.to_string())
}

impl From<MemberFileError> for Error {
    fn from(error: MemberFileError) -> Error {
        Error::new(Remedy::Repair, error.to_string())
    }
}
