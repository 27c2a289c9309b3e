//! Who belongs to the cluster.

use std::time::Duration;

use cluster::Pending;
use environment::real::RealClock;
use environment::{Clock, threads};
use etcd_api::etcdserverpb::{MemberRemoveRequest, MemberUpdateRequest};
use revisions::{Command, Member, MemberPublishRequest};
use tracing::{info, warn};

use super::{Node, begin};
use crate::{Answer, Error, Remedy};

/// Pause after an attempt to tell the name that failed at once.
const PAUSE: Duration = Duration::from_millis(100);

impl Node {
    /// Who belongs to the cluster, ascending by id, as far as this member has
    /// heard. A member's name is empty until it has started once.
    ///
    /// Members cannot be added yet: nobody can join a cluster that runs.
    pub fn members(&self) -> Vec<Member> {
        let members = self.cluster_node().reader().members();
        members.iter().cloned().collect()
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
        let urls = addresses.iter().map(|address| begin::url(address.as_ref()));
        self.change(Command::MemberUpdate(MemberUpdateRequest {
            id,
            peer_ur_ls: urls.collect(),
        }))
    }

    fn change(&self, command: Command) -> Answer<'_, ()> {
        self.answer(command, |_| Ok(()))
    }
}

/// Tells the others this member's name, as soon as there is a leader to take it.
/// The thread ends with that, or with the node.
pub(super) fn publish(node: &cluster::Node, id: u64, name: &str) -> Result<(), Error> {
    let known = node.reader().members();
    let known = known.get(id).expect("a node starts in its own data");
    if known.name == name && known.client_urls.is_empty() {
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
