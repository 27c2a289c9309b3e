//! Who belongs to the cluster.

use std::time::Duration;

use cluster::Pending;
use environment::real::RealClock;
use environment::{Clock, threads};
use etcd_api::etcdserverpb::{
    MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest, MemberUpdateRequest,
};
use revisions::{Command, Member, MemberPublishRequest, Response};
use tracing::{info, warn};

use super::{Node, begin};
use crate::{Answer, Error, Remedy, requests};

/// Pause between looks for the data, and after an attempt to tell the name that
/// failed at once.
const PAUSE: Duration = Duration::from_millis(100);

impl Node {
    /// Who belongs to the cluster, ascending by id, as far as this member has
    /// heard: nobody while this one waits for its data. A member's name is empty
    /// until it has started once and has its data.
    pub fn members(&self) -> Vec<Member> {
        let members = self.cluster_node().reader().members();
        members.iter().cloned().collect()
    }

    /// Takes a new member in, which votes from now on, and answers with its id.
    /// The others reach it at these addresses (`host:port`); it is then started
    /// with [`NodeOptions::join`](crate::NodeOptions::join) and an empty directory.
    ///
    /// It counts at once among those of whom a majority has to be up, and helps
    /// nobody before it has its data: [`Node::add_learner`] is the careful way.
    /// [`Remedy::Retry`](crate::Remedy::Retry): too few members are up to bear it.
    /// After [`Remedy::LookFirst`](crate::Remedy::LookFirst), [`Node::members`]
    /// shows whether it was added.
    ///
    /// It may be asked of any member.
    pub fn add_member<A: AsRef<str>>(&self, addresses: &[A]) -> Answer<'_, u64> {
        self.add(addresses, false)
    }

    /// As [`Node::add_member`], of one that receives everything and votes on
    /// nothing until it is promoted, so that nothing depends on a member that is
    /// still being filled. There is one learner at a time.
    pub fn add_learner<A: AsRef<str>>(&self, addresses: &[A]) -> Answer<'_, u64> {
        self.add(addresses, true)
    }

    /// Gives a learner a vote. [`Remedy::Retry`](crate::Remedy::Retry): it has not
    /// nearly all the leader has yet.
    pub fn promote_member(&self, id: u64) -> Answer<'_, ()> {
        self.change(Command::MemberPromote(MemberPromoteRequest { id }))
    }

    /// Lets a member go, forever: its id and its directory are of no use any
    /// more. The cluster must be able to bear it: most of those that stay have
    /// to be up.
    ///
    /// It may be asked of any member, by any member.
    pub fn remove_member(&self, id: u64) -> Answer<'_, ()> {
        self.change(Command::MemberRemove(MemberRemoveRequest { id }))
    }

    /// From now on the others reach a member at these addresses (`host:port`).
    /// It must be told at its next start, too: with
    /// [`NodeOptions::listen`](crate::NodeOptions::listen).
    pub fn update_member<A: AsRef<str>>(&self, id: u64, addresses: &[A]) -> Answer<'_, ()> {
        self.change(Command::MemberUpdate(MemberUpdateRequest {
            id,
            peer_ur_ls: urls(addresses),
        }))
    }

    fn add<A: AsRef<str>>(&self, addresses: &[A], is_learner: bool) -> Answer<'_, u64> {
        let add = Command::MemberAdd(MemberAddRequest {
            peer_ur_ls: urls(addresses),
            is_learner,
        });
        self.answer(add, |response| match response {
            Response::MemberAdd(added) if added.member.is_some() => {
                Ok(added.member.map_or(0, |member| member.id))
            }
            other => Err(requests::unexpected(&other)),
        })
    }

    fn change(&self, command: Command) -> Answer<'_, ()> {
        self.answer(command, |_| Ok(()))
    }
}

fn urls<A: AsRef<str>>(addresses: &[A]) -> Vec<String> {
    let urls = addresses.iter().map(|address| begin::url(address.as_ref()));
    urls.collect()
}

/// Tells the others this member's name, as soon as it has its data and there is a
/// leader to take it. The thread ends with that, or with the node.
pub(super) fn publish(node: &cluster::Node, id: u64, name: &str) -> Result<(), Error> {
    let known = node.reader().members();
    let told = |known: &Member| known.name == name && known.client_urls.is_empty();
    if known.get(id).is_some_and(told) {
        return Ok(());
    }
    let request = MemberPublishRequest {
        id,
        name: name.to_owned(),
        client_urls: Vec::new(),
    };
    let node = node.clone();
    let told = threads::spawn("publish-name", move || tell(&node, &request));
    told.map(drop)
        .map_err(|error| Error::new(Remedy::Retry, error.to_string()))
}

fn tell(node: &cluster::Node, request: &MemberPublishRequest) {
    // Whose name the others know must never be without data again: whoever has
    // none counts as one that has lost them.
    while node.reader().members().get(request.id).is_none() {
        if let Some(error) = node.refuses_writes() {
            return warn!(%error, name = request.name, "the data have not come");
        }
        RealClock.sleep(PAUSE);
    }
    loop {
        let command = Command::MemberPublish(request.clone());
        let Err(error) = node.propose(command).and_then(Pending::wait) else {
            return info!(name = request.name, "the members know this one's name");
        };
        let lasting = matches!(
            &error,
            cluster::Error::Refused(revisions::Error::Etcd(etcd_api::Error::MemberNotFound))
        );
        if node.refuses_writes().is_some() || lasting {
            return warn!(%error, name = request.name, "the members do not know this one's name");
        }
        RealClock.sleep(PAUSE);
    }
}
