//! From options to a running member of the right name.
//!
//! ```text
//!   first start:  founders, token ──► ids ──► file MEMBER in the directory
//!   later starts:                     file MEMBER ──► ids
//! ```

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use cluster::{MemberFile, MemberFileError, Network};
use revisions::{Member, identity, validate};
use tracing::{info, warn};

use super::NodeOptions;
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
        let member = match &found {
            Some(member) => member.clone(),
            None => founded(options)?,
        };
        let door = match &door {
            Some(door) => door,
            None => door.insert(bind(options, &member)?),
        };
        let node = start(options, &member, found.is_none(), door)?;
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
    } else {
        return Ok(());
    };
    Err(Error::new(Remedy::CorrectTheCall, what))
}

/// The names that founders and token give this member.
fn founded(options: &NodeOptions) -> Result<MemberFile, Error> {
    let wrong = |what: String| Err(Error::new(Remedy::CorrectTheCall, what));
    let name = &options.name;
    if options.founders.is_empty() {
        return wrong(format!(
            "{} is new and nobody founds its cluster: name all founders, this member ({name}) \
             included",
            options.node.directory.display()
        ));
    }
    for founder in &options.founders {
        if validate::peer_urls(&[url(&founder.address)]).is_err() {
            return wrong(format!(
                "founder {} is at {:?}: write host:port",
                founder.name, founder.address
            ));
        }
        let same = |other: &&super::options::Founder| {
            other.name == founder.name || other.address == founder.address
        };
        if options.founders.iter().filter(same).count() > 1 {
            return wrong(format!(
                "founder {} at {} shares its name or its address with another one",
                founder.name, founder.address
            ));
        }
    }
    let Some(own) = options.founders.iter().find(|it| it.name == *name) else {
        return wrong(format!(
            "the founders lack this member, {name}: name it too"
        ));
    };
    let members = founders(options);
    let ids: Vec<u64> = members.iter().map(|member| member.id).collect();
    Ok(MemberFile {
        member: identity::member_id(&[&url(&own.address)], &options.token),
        cluster: identity::cluster_id(&ids),
        peer_urls: vec![url(&own.address)],
    })
}

fn founders(options: &NodeOptions) -> Vec<Member> {
    let member = |founder: &super::options::Founder| {
        let url = url(&founder.address);
        Member {
            id: identity::member_id(&[&url], &options.token),
            peer_urls: vec![url],
            ..Member::default()
        }
    };
    options.founders.iter().map(member).collect()
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
    let own = options.founders.iter().find(|it| it.name == options.name);
    let began = || member.peer_urls.first()?.strip_prefix("http://");
    let address = match (&options.listen, own) {
        (Some(address), _) => address,
        (None, Some(own)) => own.address.as_str(),
        (None, None) => began().ok_or_else(|| {
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

fn start(
    options: &NodeOptions,
    member: &MemberFile,
    begins: bool,
    door: &TcpListener,
) -> Result<cluster::Node, Error> {
    let mut node = options.node.clone();
    node.machine.member_id = member.member;
    // Later the log knows who belongs to the cluster.
    node.machine.initial_members = if begins {
        founders(options)
    } else {
        Vec::new()
    };
    node.machine.lease_ttl_min_seconds = lease_ttl_min_seconds(node.election_timeout);
    let network = Network {
        cluster_id: member.cluster,
        listeners: vec![door.try_clone().map_err(repair)?],
        contacts: Vec::new(),
    };
    let node = cluster::Node::start_member(node, network)?;
    if node.reader().members().get(member.member).is_none() {
        node.stop();
        return Err(foreign(&options.node.directory, member.member));
    }
    Ok(node)
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
         come back under its old name",
        directory.display()
    );
    Error::new(Remedy::Repair, what)
}

/// Whoever has changed founders or token since is told that this changes
/// nothing.
fn tell_ignored(options: &NodeOptions, kept: &MemberFile) {
    if !options.founders.is_empty() && founded(options).ok().as_ref() != Some(kept) {
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
