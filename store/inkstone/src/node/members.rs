//! Membership of the cluster.

use std::time::Duration;

use cluster::Pending;
use environment::real::RealClock;
use environment::{Clock, threads};
use etcd_api::etcdserverpb::{
    MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest, MemberUpdateRequest,
};
use revisions::{Command, Member, MemberPublishRequest, Response};
use tracing::{info, warn};

use super::Node;
use super::options::url;
use crate::{Answer, Error, Remedy, requests};

/// Pause between checks for the data, and after a failed attempt to publish the name.
const PAUSE: Duration = Duration::from_millis(100);

impl Node {
    /// The members of the cluster, ascending by id, as far as this member has applied the log:
    /// the list is empty while it waits for its data. The name of a member is empty until it
    /// has started once and has its data.
    pub fn members(&self) -> Vec<Member> {
        let members = self.cluster_node().reader().members();
        members.iter().cloned().collect()
    }

    /// Adds a voting member; the answer is its id. The others reach it at these addresses
    /// (`host:port`). Start it afterwards with
    /// [`NodeOptions::join`](crate::NodeOptions::join) and an empty directory.
    ///
    /// The new member counts for the majority at once, although it cannot help to form one
    /// before it has its data; [`Node::add_learner`] avoids this. The call fails with
    /// [`Remedy::Retry`](crate::Remedy::Retry) if too few members run to permit the addition.
    /// After [`Remedy::LookFirst`](crate::Remedy::LookFirst), [`Node::members`] shows whether
    /// the member was added.
    ///
    /// Every member accepts the call.
    pub fn add_member<A: AsRef<str>>(&self, addresses: &[A]) -> Answer<'_, u64> {
        self.add(addresses, false)
    }

    /// Adds a member as a learner: it receives all data but does not vote until it is promoted,
    /// so no majority depends on a member without its data. See [`Node::add_member`]. A
    /// cluster has at most one learner at a time.
    pub fn add_learner<A: AsRef<str>>(&self, addresses: &[A]) -> Answer<'_, u64> {
        self.add(addresses, true)
    }

    /// Promotes a learner to a voting member. Fails with
    /// [`Remedy::Retry`](crate::Remedy::Retry) while the learner is too far behind the leader.
    pub fn promote_member(&self, id: u64) -> Answer<'_, ()> {
        self.change(Command::MemberPromote(MemberPromoteRequest { id }))
    }

    /// Removes a member for ever: its id and its directory cannot be used again. The call fails
    /// unless a majority of the remaining members runs.
    ///
    /// Every member accepts the call, also the one to be removed.
    pub fn remove_member(&self, id: u64) -> Answer<'_, ()> {
        self.change(Command::MemberRemove(MemberRemoveRequest { id }))
    }

    /// Changes the addresses (`host:port`) at which the others reach a member. At its next
    /// start the member itself needs the new address in
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
    let urls = addresses.iter().map(|address| url(address.as_ref()));
    urls.collect()
}

/// Starts a thread that publishes this member's name as soon as the member has its data and
/// a leader accepts the command. The thread ends then, or when the node stops.
pub(super) fn publish(node: &cluster::Node, id: u64, name: &str) -> Result<(), Error> {
    let known = node.reader().members();
    let is_published = |known: &Member| known.name == name && known.client_urls.is_empty();
    if known.get(id).is_some_and(is_published) {
        return Ok(());
    }
    let request = MemberPublishRequest {
        id,
        name: name.to_owned(),
        client_urls: Vec::new(),
    };
    let node = node.clone();
    let thread = threads::spawn("publish-name", move || publish_when_ready(&node, &request));
    thread
        .map(drop)
        .map_err(|error| Error::new(Remedy::Retry, error.to_string()))
}

fn publish_when_ready(node: &cluster::Node, request: &MemberPublishRequest) {
    // The name must not be published before the data are there: a member that the others know
    // by name and that has no data counts as one that has lost them.
    while node.reader().members().get(request.id).is_none() {
        if let Some(error) = node.refuses_writes() {
            return warn!(%error, name = request.name, "this member has not received its data");
        }
        RealClock.sleep(PAUSE);
    }
    loop {
        let command = Command::MemberPublish(request.clone());
        let Err(error) = node.propose(command).and_then(Pending::wait) else {
            return info!(name = request.name, "this member's name is published");
        };
        let lasting = matches!(
            &error,
            cluster::Error::Refused(revisions::Error::Etcd(etcd_api::Error::MemberNotFound))
        );
        if node.refuses_writes().is_some() || lasting {
            return warn!(%error, name = request.name, "this member's name cannot be published");
        }
        RealClock.sleep(PAUSE);
    }
}
