//! What a member asks the others while its directory is empty.
//!
//! ```text
//!   founder(..)  does anyone know me as one that was up?   then refuse, else found with the rest
//!   join(..)     who are you all, and which of you am I?   then wait for the data
//! ```
//!
//! A member that has lost its directory must not begin anew under its old name:
//! it would vote again where it has voted, and forget what it has acknowledged.
//! Only the others can tell. A member tells its name when it has its data, so
//! whoever is known by name and holds nothing has lost them.

use std::time::Duration;

use cluster::{MemberFile, Roster, holds_data};
use revisions::{Member, validate};

use super::begin::url;
use super::options::Joining;
use super::{NodeOptions, founding};
use crate::{Error, Remedy};

/// As long as etcd waits for word of itself.
const FOUNDING_PATIENCE: Duration = Duration::from_secs(1);
/// Who joins needs an answer, and waits longer for it.
const JOINING_PATIENCE: Duration = Duration::from_secs(5);

/// A member, and what its directory begins with.
pub(super) struct Beginning {
    pub member: MemberFile,
    /// Who founds the cluster; nobody when it exists.
    pub founders: Vec<Member>,
    /// Whom a member talks to that waits for its data.
    pub contacts: Vec<Member>,
}

impl Beginning {
    /// Of a directory that knows its member: its log knows the others.
    pub fn kept(member: MemberFile) -> Beginning {
        Beginning {
            member,
            founders: Vec::new(),
            contacts: Vec::new(),
        }
    }
}

/// Who this member is, of a directory without its file `MEMBER`: one that is
/// empty, or in which a crash came between the first data and the file.
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

/// Whom a member talks to that has begun to join in an earlier life, and has no
/// data yet.
pub(super) fn contacts(options: &NodeOptions, kept: &MemberFile) -> Result<Vec<Member>, Error> {
    let directory = options.node.directory.display();
    let MemberFile {
        member, cluster, ..
    } = kept;
    let Some(joining) = &options.joining else {
        let what = format!(
            "{directory} is that of member {member:x} and holds no data: while they have not come \
             yet, say `join` at each start; where they are lost, remove the member, add it anew, \
             and let it join with an empty directory"
        );
        return Err(Error::new(Remedy::CorrectTheCall, what));
    };
    let rosters = ask_to_join(options, joining)?;
    let newest = &rosters[0];
    if newest.cluster_id != *cluster {
        let what = format!(
            "{directory} has begun to join the cluster {cluster:x}, and those who were asked are \
             of the cluster {:x}: ask members of the first, or choose another directory",
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

/// What members say at the addresses that they were named with: one at least,
/// the newest first.
fn ask_to_join(options: &NodeOptions, joining: &Joining) -> Result<Vec<Roster>, Error> {
    let (rosters, reasons) = ask(options, joining.others(), JOINING_PATIENCE)?;
    let Some(newest) = rosters.first() else {
        let what = format!(
            "nobody tells who the members are ({}): have one of them up, or name other addresses \
             of members; who waits for data itself cannot tell",
            match reasons.is_empty() {
                true => "no data there yet".to_owned(),
                false => reasons.join("; "),
            }
        );
        return Err(Error::new(Remedy::Retry, what));
    };
    let stranger = rosters.iter().find(|it| it.cluster_id != newest.cluster_id);
    if let Some(stranger) = stranger {
        let what = format!(
            "those who were asked are of two clusters, {:x} and {:x}: name members of one",
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

/// The others must not know this member as one that has gone, nor, if it holds
/// nothing, as one that was up.
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
        "member {member:x} was removed from its cluster and cannot come back: have a member add \
         it anew (`add_learner`), then let it `join` with an empty directory"
    );
    Err(Error::new(Remedy::Repair, what))
}

fn known_by_name(member: u64, rosters: &[Roster]) -> bool {
    let mut known = rosters.iter().filter_map(|roster| roster.member(member));
    known.any(Member::is_started)
}

fn lost(options: &NodeOptions, member: u64) -> Error {
    let what = format!(
        "the others know this member, {member:x}, as one that was up, and {} holds nothing of \
         it: put the directory back; where it is lost, have a member remove this one \
         (`remove_member`) and add it anew (`add_learner`), then let it `join`",
        options.node.directory.display()
    );
    Error::new(Remedy::Repair, what)
}

/// Nobody has this address: not added yet, or added with another one.
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
        "the cluster {:x} has no member at {address} (its members: {}): ask a member to add {address} \
         first (`add_learner`, `add_member`)",
        roster.cluster_id,
        listed(&mut roster.members.iter())
    );
    let new = listed(&mut new);
    if !new.is_empty() {
        what +=
            &format!("; if this is one that was added and never up ({new}), join with its address");
    }
    Error::new(Remedy::CorrectTheCall, what)
}

impl Joining {
    /// Why nobody can be asked, if so.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::new(Remedy::CorrectTheCall, what));
        for address in [&self.address].into_iter().chain(&self.members) {
            if validate::peer_urls(&[url(address)]).is_err() {
                return wrong(format!("join: {address:?} is no address: write host:port"));
            }
        }
        match self.others().is_empty() {
            true => wrong(format!(
                "join: nobody is named whom {} could ask: name some of the members",
                self.address
            )),
            false => Ok(()),
        }
    }

    /// Peer URLs of those who are asked; nobody answers at this member's own.
    fn others(&self) -> Vec<String> {
        let others = self.members.iter().filter(|it| **it != self.address);
        others.map(|address| url(address)).collect()
    }
}
