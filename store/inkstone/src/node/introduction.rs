//! Questions of a member with an empty directory to the other members.
//!
//! ```text
//!   founder(..)  has this member run before?    if so refuse, else found the cluster
//!   join(..)     members, and this one's id?    then wait for the data
//! ```
//!
//! A member that has lost its directory must not start again under its old name: it could
//! vote twice in a term, and would lack entries that it has acknowledged. Only the other
//! members can detect this. A member publishes its name when it has its data, so a member
//! that is known by name and has no data has lost them.

use std::time::Duration;

use cluster::{MemberFile, Roster, holds_data};
use revisions::{Member, validate};

use super::begin::url;
use super::options::Joining;
use super::{NodeOptions, founding};
use crate::{Error, Remedy};

/// Time limit of a founder's question, as in etcd.
const FOUNDING_PATIENCE: Duration = Duration::from_secs(1);
/// Time limit of a joining member's question. It is longer, because the member needs an
/// answer.
const JOINING_PATIENCE: Duration = Duration::from_secs(5);

/// A member's identity, and the members with which its directory begins.
pub(super) struct Beginning {
    pub member: MemberFile,
    /// Founders of the cluster; empty if it exists already.
    pub founders: Vec<Member>,
    /// Members that a member without data talks to until it has them.
    pub contacts: Vec<Member>,
}

impl Beginning {
    /// The beginning of a directory that has a file `MEMBER`; its log has the other members.
    pub fn kept(member: MemberFile) -> Beginning {
        Beginning {
            member,
            founders: Vec::new(),
            contacts: Vec::new(),
        }
    }
}

/// Determines the identity of a member without a file `MEMBER`: the directory is empty, or a
/// crash happened between the first data and the file.
pub(super) fn introduce(options: &NodeOptions) -> Result<Beginning, Error> {
    match &options.joining {
        Some(joining) => join(options, joining),
        None => found(options),
    }
}

fn found(options: &NodeOptions) -> Result<Beginning, Error> {
    let member = founding::member(options)?;
    let others = options.founders.iter().filter(|it| it.name != options.name);
    let urls: Vec<String> = others.map(|other| url(&other.address)).collect();
    if !urls.is_empty() {
        let (rosters, _) = ask(options, urls, FOUNDING_PATIENCE)?;
        refuse_if_known(options, member.member, &rosters)?;
    }
    Ok(Beginning {
        member,
        founders: founding::founders(options),
        contacts: Vec::new(),
    })
}

fn join(options: &NodeOptions, joining: &Joining) -> Result<Beginning, Error> {
    let rosters = ask_to_join(options, joining)?;
    let own_url = url(&joining.address);
    let own = |member: &&Member| member.peer_urls.contains(&own_url);
    let place = rosters
        .iter()
        .find_map(|roster| Some((roster, roster.members.iter().find(own)?)));
    let (roster, own) = place.ok_or_else(|| no_member(&joining.address, &rosters[0]))?;
    refuse_if_known(options, own.id, &rosters)?;
    Ok(Beginning {
        member: MemberFile {
            member: own.id,
            cluster: roster.cluster_id,
            peer_urls: own.peer_urls.clone(),
        },
        founders: Vec::new(),
        contacts: roster.members.clone(),
    })
}

/// The members that a member talks to if it began to join in an earlier start and has no data
/// yet.
pub(super) fn contacts(options: &NodeOptions, kept: &MemberFile) -> Result<Vec<Member>, Error> {
    let directory = options.node.directory.display();
    let MemberFile {
        member, cluster, ..
    } = kept;
    let Some(joining) = &options.joining else {
        let what = format!(
            "{directory} belongs to member {member:x} and holds no data: if the member has not \
             received its data yet, set `join` at each start; if the data are lost, remove the \
             member, add it again, and let it join with an empty directory"
        );
        return Err(Error::new(Remedy::CorrectTheCall, what));
    };
    let rosters = ask_to_join(options, joining)?;
    let newest = &rosters[0];
    if newest.cluster_id != *cluster {
        let what = format!(
            "{directory} has begun to join the cluster {cluster:x}, but the named members belong \
             to the cluster {:x}: name members of the first, or choose another directory",
            newest.cluster_id
        );
        return Err(Error::new(Remedy::CorrectTheCall, what));
    }
    if known_by_name(*member, &rosters) {
        return Err(lost(options, *member));
    }
    refuse_if_removed(*member, &rosters)?;
    let roster = rosters.iter().find(|it| it.member(*member).is_some());
    let roster = roster.ok_or_else(|| no_member(&joining.address, newest))?;
    Ok(roster.members.clone())
}

/// The rosters of the named members, the newest first. Fails if no member answers, or if they
/// belong to different clusters.
fn ask_to_join(options: &NodeOptions, joining: &Joining) -> Result<Vec<Roster>, Error> {
    let (rosters, reasons) = ask(options, joining.others(), JOINING_PATIENCE)?;
    let Some(newest) = rosters.first() else {
        let what = format!(
            "no member answers with a list of the members ({}): start one of them, or name other \
             addresses of members; a member that waits for its own data cannot answer",
            match reasons.is_empty() {
                true => "the named members have no data yet".to_owned(),
                false => reasons.join("; "),
            }
        );
        return Err(Error::new(Remedy::Retry, what));
    };
    let stranger = rosters.iter().find(|it| it.cluster_id != newest.cluster_id);
    if let Some(stranger) = stranger {
        let what = format!(
            "the named members belong to two clusters, {:x} and {:x}: name members of one",
            newest.cluster_id, stranger.cluster_id
        );
        return Err(Error::new(Remedy::CorrectTheCall, what));
    }
    Ok(rosters)
}

fn ask(
    options: &NodeOptions,
    urls: Vec<String>,
    patience: Duration,
) -> Result<(Vec<Roster>, Vec<String>), Error> {
    Roster::ask(urls, patience, options.peer_secret.clone()).map_err(|error| {
        let what = format!("cannot ask the other members: {error}");
        Error::new(Remedy::Retry, what)
    })
}

/// Fails if the others know this member as a removed one, or, if it has no data, as one that
/// has run before.
fn refuse_if_known(options: &NodeOptions, member: u64, rosters: &[Roster]) -> Result<(), Error> {
    refuse_if_removed(member, rosters)?;
    let (disk, directory) = (&*options.node.disk, &options.node.directory);
    match known_by_name(member, rosters) && !holds_data(disk, directory) {
        true => Err(lost(options, member)),
        false => Ok(()),
    }
}

fn refuse_if_removed(member: u64, rosters: &[Roster]) -> Result<(), Error> {
    let mut removed = rosters.iter().flat_map(|roster| &roster.removed);
    if !removed.any(|&id| id == member) {
        return Ok(());
    }
    let what = format!(
        "member {member:x} was removed from its cluster and cannot come back: add it again at a \
         member (`add_learner`), then let it `join` with an empty directory"
    );
    Err(Error::new(Remedy::Repair, what))
}

fn known_by_name(member: u64, rosters: &[Roster]) -> bool {
    let mut known = rosters.iter().filter_map(|roster| roster.member(member));
    known.any(Member::is_started)
}

fn lost(options: &NodeOptions, member: u64) -> Error {
    let what = format!(
        "the other members know that this member, {member:x}, was up before, and {} holds nothing \
         of it: put the directory back; if it is lost, remove this member (`remove_member`) and \
         add it again (`add_learner`) at another one, then let it `join`",
        options.node.directory.display()
    );
    Error::new(Remedy::Repair, what)
}

/// The error for an address that no member has: this one was not added yet, or with another
/// address.
fn no_member(address: &str, roster: &Roster) -> Error {
    let listed = |members: &mut dyn Iterator<Item = &Member>| {
        let one = |member: &Member| {
            let addresses = member.peer_urls.join(" ");
            format!("{:x} {} at {addresses}", member.id, member.name)
        };
        members.map(one).collect::<Vec<_>>().join(", ")
    };
    let mut new = roster.members.iter().filter(|member| !member.is_started());
    let mut what = format!(
        "the cluster {:x} has no member at {address} (its members: {}): add {address} first, at \
         any member (`add_learner`, `add_member`)",
        roster.cluster_id,
        listed(&mut roster.members.iter())
    );
    let new = listed(&mut new);
    if !new.is_empty() {
        what += &format!(
            "; if this is a member that was added and never up ({new}), join with its address"
        );
    }
    Error::new(Remedy::CorrectTheCall, what)
}

impl Joining {
    /// Checks that the addresses are valid and name another member.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::new(Remedy::CorrectTheCall, what));
        for address in [&self.address].into_iter().chain(&self.members) {
            if validate::peer_urls(&[url(address)]).is_err() {
                return wrong(format!("join: {address:?} is no address: write host:port"));
            }
        }
        match self.others().is_empty() {
            true => wrong(format!(
                "join: the list names no other member that {} could ask: name some of the members",
                self.address
            )),
            false => Ok(()),
        }
    }

    /// Peer URLs of the named members without this one's own address.
    fn others(&self) -> Vec<String> {
        let others = self.members.iter().filter(|it| **it != self.address);
        others.map(|address| url(address)).collect()
    }
}
