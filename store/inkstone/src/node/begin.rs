//! Start of a member: translates the options to those of [`cluster::Bootstrap`], and its
//! errors to the words of these options.

use std::net::TcpListener;
use std::time::Duration;

use cluster::{
    Bootstrap, BootstrapError, BootstrapFailure as Failure, Founding, Joining, MemberFile,
    MemberFileError, MemberList, Origin, PeerListener, Started, lease_ttl_min_seconds,
};
use revisions::{Member, validate};
use tracing::warn;

use super::options::{Founder, Join, NodeOptions, url};
use crate::{Error, Remedy};

/// Starts the member; returns when the data of the directory are recovered.
pub(super) fn begin(options: &NodeOptions) -> Result<Started, Error> {
    check(options)?;
    let mut node = options.node.clone();
    node.replica.machine.lease_ttl_min_seconds =
        lease_ttl_min_seconds(node.replica.election_timeout);
    let bootstrap = Bootstrap {
        options: node,
        alone: None,
        advertised: own_address(options).map(url).into_iter().collect(),
        listed: listed_others(options),
        credentials: options.peer_secret.clone().into(),
    };
    let started = bootstrap.start(|| origin(options), |member| bind(options, member))?;
    if started.was_begun && ignores_founders(options, &started.member) {
        warn!(
            member = format!("{:x}", started.member.member),
            cluster = format!("{:x}", started.member.cluster),
            "founders and token are ignored: the data directory has its member and cluster \
             since its first start"
        );
    }
    Ok(started)
}

fn wrong<T>(what: String) -> Result<T, Error> {
    Err(Error::new(Remedy::CorrectTheCall, what))
}

fn check(options: &NodeOptions) -> Result<(), Error> {
    let (heartbeat, election) = (
        options.node.replica.heartbeat_interval,
        options.node.replica.election_timeout,
    );
    if options.name.is_empty() {
        return wrong("a member needs a name".to_owned());
    }
    if heartbeat < Duration::from_millis(1) || election < heartbeat * 2 {
        return wrong(format!(
            "an election timeout of {election:?} with a heartbeat interval of {heartbeat:?}: \
             choose at least 1 ms for the interval and twice that for the timeout"
        ));
    }
    let Some(join) = &options.join else {
        return Ok(());
    };
    if !options.founders.is_empty() {
        let what = "a member joins a cluster that exists or founds one: leave `join` or the \
                    founders out";
        return wrong(what.to_owned());
    }
    for address in [&join.address].into_iter().chain(&join.members) {
        if validate::peer_urls(&[url(address)]).is_err() {
            return wrong(format!("join: {address:?} is no address: write host:port"));
        }
    }
    if listed_others(options).is_empty() {
        return wrong(format!(
            "join: the list names no other member that {} could ask: name some of the members",
            join.address
        ));
    }
    Ok(())
}

/// The cluster that the options describe; an error if no member can begin with them.
fn origin(options: &NodeOptions) -> Result<Origin, Error> {
    match &options.join {
        Some(join) => Ok(Origin::Joins(Joining {
            own_urls: vec![url(&join.address)],
            all: None,
        })),
        None => founding(options).map(Origin::Founds),
    }
}

/// The founders. Fails if they do not form a valid cluster, or this member is not among them.
fn founding(options: &NodeOptions) -> Result<Founding, Error> {
    let (name, founders) = (&options.name, &options.founders);
    if founders.is_empty() {
        return wrong(format!(
            "{} is new and its cluster has no founders: name all founders, this member ({name}) \
             included, or let it `join` a cluster that exists",
            options.node.directory.display()
        ));
    }
    for founder in founders {
        let Founder { name, address } = founder;
        if validate::peer_urls(&[url(address)]).is_err() {
            return wrong(format!("founder {name} is at {address:?}: write host:port"));
        }
        let same = |other: &&Founder| other.name == *name || other.address == *address;
        if founders.iter().filter(same).count() > 1 {
            return wrong(format!(
                "founder {name} at {address} shares its name or its address with another one"
            ));
        }
    }
    let Some(own) = founders.iter().find(|it| it.name == *name) else {
        return wrong(format!(
            "the founders lack this member, {name}: name it too"
        ));
    };
    let urls: Vec<[String; 1]> = founders.iter().map(|it| [url(&it.address)]).collect();
    Ok(Founding::new(
        &options.token,
        urls.iter().map(|urls| &urls[..]),
        vec![url(&own.address)],
    ))
}

/// Whether the options have other founders or another token than the directory's first start.
fn ignores_founders(options: &NodeOptions, member: &MemberFile) -> bool {
    let described = || founding(options).is_ok_and(|founding| founding.own == *member);
    !options.founders.is_empty() && !described()
}

/// Binds the socket for the other members.
#[expect(
    clippy::disallowed_methods,
    reason = "the one socket of an embedded member"
)]
fn bind(options: &NodeOptions, member: &MemberFile) -> Result<Vec<PeerListener>, Error> {
    if let Some(listener) = &options.listener {
        let handle = listener.try_clone().map_err(repair)?;
        return Ok(vec![handle.into()]);
    }
    let began = || member.peer_urls.first()?.strip_prefix("http://");
    let configured = options.listen.as_deref().or(own_address(options));
    let Some(address) = configured.or_else(began) else {
        return wrong("the directory does not say where to listen: set `listen`".to_owned());
    };
    match TcpListener::bind(address) {
        Ok(listener) => Ok(vec![listener.into()]),
        Err(error) => wrong(format!(
            "cannot listen for other members at {address}: {error}; end the process that listens \
             there, or set `listen` to another address"
        )),
    }
}

/// The address at which other members reach this one, according to the options.
fn own_address(options: &NodeOptions) -> Option<&str> {
    let own = options.founders.iter().find(|it| it.name == options.name);
    let join = options.join.as_ref();
    own.map(|own| &*own.address)
        .or(join.map(|join| &*join.address))
}

/// Peer URLs of the other members that the options name.
fn listed_others(options: &NodeOptions) -> Vec<String> {
    let founders = options.founders.iter().filter(|it| it.name != options.name);
    let founders = founders.map(|founder| &founder.address);
    let joined = |join: &'_ Join| {
        let others = join.members.iter().filter(|it| **it != join.address);
        others.cloned().collect::<Vec<_>>()
    };
    let joined = options.join.as_ref().map(joined).unwrap_or_default();
    founders
        .chain(&joined)
        .map(|address| url(address))
        .collect()
}

fn repair(error: std::io::Error) -> Error {
    Error::new(Remedy::Repair, error.to_string())
}

impl From<MemberFileError> for Error {
    fn from(error: MemberFileError) -> Error {
        Error::new(Remedy::Repair, error.to_string())
    }
}

impl From<BootstrapError> for Error {
    fn from(BootstrapError { directory, reason }: BootstrapError) -> Error {
        let directory = directory.display();
        let retry = |what| Error::new(Remedy::Retry, what);
        let correct = |what| Error::new(Remedy::CorrectTheCall, what);
        let repair = |what| Error::new(Remedy::Repair, what);
        match reason {
            Failure::MemberFile(error) => error.into(),
            Failure::Node(cluster::Error::Removed { member }) => repair(format!(
                "member {member:x} was removed from its cluster and cannot come back: add it \
                     again at a member (`add_learner`), then let it `join` with an empty directory"
            )),
            Failure::Node(error) => error.into(),
            Failure::Socket(error) => repair(error.to_string()),
            Failure::Thread(error) => retry(format!("cannot ask the other members: {error}")),
            Failure::NoData { member } => repair(format!(
                "{directory} belongs to member {member:x} and holds nothing of it: put the \
                     directory back; if it is lost, remove this member (`remove_member`) and add \
                     it again (`add_learner`) at another one, then let it `join` with an empty \
                     directory"
            )),
            Failure::ForeignLog { member } => repair(format!(
                "the log in {directory} does not know the member {member:x}: it is that of a \
                     store, or of another cluster; choose another directory. A member that has \
                     lost its data cannot come back under its old name: remove it, add it again \
                     and let it `join`"
            )),
            Failure::Lost { member } => repair(format!(
                "the other members know that this member, {member:x}, was up before, and \
                     {directory} holds nothing of it: put the directory back; if it is lost, \
                     remove this member (`remove_member`) and add it again (`add_learner`) at \
                     another one, then let it `join`"
            )),
            Failure::OtherCluster { described, running } => correct(format!(
                "the members at the founders' addresses run already, as the cluster {:x} ({}), \
                     and these founders and this token begin the cluster {described:x}: to join \
                     that cluster, have it add this member (`add_learner`) and let it `join`; if \
                     it is one of those that began it, set their founders and `cluster_token`",
                running.cluster_id,
                listed(running.members.iter())
            )),
            Failure::OtherSegments { ours, theirs } => correct(format!(
                "the other members have segments of {theirs} bytes and `segment_bytes` is \
                     {ours}, but it has to be the same on all members: set it to {theirs}"
            )),
            Failure::Unfilled { member } => correct(format!(
                "{directory} belongs to member {member:x} and holds no data: if the member \
                     has not received its data yet, set `join` at each start; if the data are \
                     lost, remove the member, add it again, and let it join with an empty directory"
            )),
            Failure::JoinsAnother { own, named } => correct(format!(
                "{directory} has begun to join the cluster {:x}, but the named members belong \
                     to the cluster {named:x}: name members of the first, or choose another \
                     directory",
                own.cluster
            )),
            Failure::NoMemberAnswers { reasons } => retry(format!(
                "no member answers with a list of the members ({}): start one of them, or \
                     name other addresses of members; a member that waits for its own data \
                     cannot answer",
                match reasons.is_empty() {
                    true => "the named members have no data yet".to_owned(),
                    false => reasons.join("; "),
                }
            )),
            Failure::TwoClusters { clusters: [a, b] } => correct(format!(
                "the named members belong to two clusters, {a:x} and {b:x}: name members of \
                     one"
            )),
            Failure::NotListed { list, own_urls, .. } => correct(not_listed(&list, &own_urls)),
        }
    }
}

fn listed<'a>(members: impl Iterator<Item = &'a Member>) -> String {
    let one = |member: &Member| {
        let addresses = member.peer_urls.join(" ");
        format!("{:x} {} at {addresses}", member.id, member.name)
    };
    members.map(one).collect::<Vec<_>>().join(", ")
}

/// The error for an address that no member has: this one was not added yet, or with another
/// address.
fn not_listed(list: &MemberList, own_urls: &[String]) -> String {
    let own = own_urls
        .iter()
        .filter_map(|url| url.strip_prefix("http://"));
    let own = own.collect::<Vec<_>>().join(" ");
    let mut what = format!(
        "the cluster {:x} has no member at {own} (its members: {}): add {own} first, at any \
         member (`add_learner`, `add_member`)",
        list.cluster_id,
        listed(list.members.iter())
    );
    let new = listed(list.members.iter().filter(|member| !member.is_started()));
    if !new.is_empty() {
        what += &format!(
            "; if this is a member that was added and never up ({new}), join with its address"
        );
    }
    what
}
