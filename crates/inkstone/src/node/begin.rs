//! From options to a running member of the right name.
//!
//! ```text
//!   first start:  founders, token ──► ids ──► file MEMBER in the directory
//!                 those who are asked to join ──► ids ──► file MEMBER
//!   later starts:                     file MEMBER ──► ids
//! ```

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use cluster::{MemberFile, MemberFileError, Network};
use tracing::{info, warn};

use super::introduction::{self, Beginning};
use super::{NodeOptions, founding};
use crate::{Error, Remedy};

/// A member that runs under its directory's names.
pub(super) struct Begun {
    pub node: cluster::Node,
    pub member: u64,
}

/// Starts it; returns when what the directory holds is recovered.
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
        // Before the node had the directory's lock, another may have had it,
        // begun the directory, and gone.
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

/// As etcd writes it, so that the ids are those of a server with this address.
pub(super) fn url(address: &str) -> String {
    format!("http://{address}")
}

/// Where the other members come in.
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
            "cannot listen for other members at {address}: {error}; end who listens there, or \
             set `listen` to another address"
        );
        Error::new(Remedy::CorrectTheCall, what)
    })
}

/// Where the options say that other members reach this one.
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

/// A member that has its data, or whom to have them from.
fn start_or_go_on(
    options: &NodeOptions,
    mut beginning: Beginning,
    door: &TcpListener,
) -> Result<cluster::Node, Error> {
    let node = start(options, &beginning, door)?;
    if !beginning.contacts.is_empty() || !node.reader().members().is_empty() {
        return Ok(node);
    }
    // It has begun to join and was stopped before it had anything. It would hear
    // the others and could not answer: it has to know them from the start.
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

/// A lease shorter than one and a half elections could not be renewed in time.
fn lease_ttl_min_seconds(election_timeout: Duration) -> i64 {
    let milliseconds = u64::try_from(election_timeout.as_millis()).unwrap_or(u64::MAX / 3);
    i64::try_from((3 * milliseconds).div_ceil(2 * 1000)).unwrap_or(i64::MAX)
}

fn foreign(directory: &Path, member: u64) -> Error {
    let what = format!(
        "the log in {} does not know the member {member:x}: it is that of a store, or of \
         another cluster; choose another directory. A member that has lost its data cannot \
         come back under its old name: remove it, add it anew and let it `join`",
        directory.display()
    );
    Error::new(Remedy::Repair, what)
}

/// Whoever has changed founders or token since is told that this changes
/// nothing.
fn tell_ignored(options: &NodeOptions, kept: &MemberFile) {
    if !options.founders.is_empty() && founding::member(options).ok().as_ref() != Some(kept) {
        warn!(
            member = format!("{:x}", kept.member),
            cluster = format!("{:x}", kept.cluster),
            "founders and token are not looked at: the data directory has had its member and \
             cluster since its first start"
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
