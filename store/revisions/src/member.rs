//! The members of the cluster.
//!
//! ```text
//!   Added ──► learner ──Promoted──► voter ──Removed──► gone, its id never returns
//!     └────────────────────────────►  ▲
//!                    Published (name, client URLs), Updated (peer URLs)
//! ```
//!
//! Added, Promoted and Removed change Raft's configuration too: an entry of
//! the log that holds one holds nothing else (`membership.rs`).

use std::collections::{BTreeMap, BTreeSet};

use etcd_api::etcdserverpb;

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Never 0.
    pub id: u64,
    /// Empty until the member has started for the first time.
    pub name: String,
    /// URLs for the other members.
    pub peer_urls: Vec<String>,
    /// URLs for clients; empty until the member has started for the first time.
    pub client_urls: Vec<String>,
    /// Whether the member receives the log without a vote.
    pub is_learner: bool,
}

/// A change of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a member.
    Added {
        /// Never 0, and never the id of an earlier member.
        id: u64,
        /// Whether the member starts without a vote.
        is_learner: bool,
        peer_urls: Vec<String>,
    },
    /// Removes a member for ever.
    Removed { id: u64 },
    /// Makes a learner a voter.
    Promoted { id: u64 },
    /// Replaces the peer URLs of a member.
    Updated { id: u64, peer_urls: Vec<String> },
    /// Sets the name and the client URLs of a member that has started.
    Published {
        id: u64,
        name: String,
        client_urls: Vec<String>,
    },
}

/// All members, and the ids of removed members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    by_id: BTreeMap<u64, Member>,
    removed: BTreeSet<u64>,
}

impl Member {
    /// Returns whether the member has published its name, so it has started at least once.
    pub fn is_started(&self) -> bool {
        !self.name.is_empty()
    }

    /// Converts the member to etcd's message.
    pub fn to_message(&self) -> etcdserverpb::Member {
        etcdserverpb::Member {
            id: self.id,
            name: self.name.clone(),
            peer_ur_ls: self.peer_urls.clone(),
            client_ur_ls: self.client_urls.clone(),
            is_learner: self.is_learner,
        }
    }
}

impl MemberChange {
    /// The id of the member that changes.
    pub fn id(&self) -> u64 {
        match *self {
            MemberChange::Added { id, .. }
            | MemberChange::Removed { id }
            | MemberChange::Promoted { id }
            | MemberChange::Updated { id, .. }
            | MemberChange::Published { id, .. } => id,
        }
    }

    /// Returns whether the change is one of Raft's configuration.
    pub fn changes_configuration(&self) -> bool {
        match self {
            MemberChange::Added { .. }
            | MemberChange::Removed { .. }
            | MemberChange::Promoted { .. } => true,
            MemberChange::Updated { .. } | MemberChange::Published { .. } => false,
        }
    }
}

impl Members {
    pub fn get(&self, id: u64) -> Option<&Member> {
        self.by_id.get(&id)
    }

    /// Iterates over all members, ascending by id, as etcd lists them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.by_id.values()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether there is no member: the directory waits to join a cluster.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Iterates over the voters, ascending by id.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.iter().filter(|member| !member.is_learner)
    }

    /// Iterates over the learners, ascending by id.
    pub fn learners(&self) -> impl Iterator<Item = &Member> {
        self.iter().filter(|member| member.is_learner)
    }

    /// Returns whether a removed member had this id, which cannot be used again.
    pub fn is_removed(&self, id: u64) -> bool {
        self.removed.contains(&id)
    }

    /// Iterates over the ids of removed members, ascending.
    pub fn removed(&self) -> impl ExactSizeIterator<Item = u64> {
        self.removed.iter().copied()
    }

    /// Returns whether a member other than `except` has one of these peer URLs.
    pub(crate) fn has_peer_url(&self, urls: &[String], except: Option<u64>) -> bool {
        self.iter()
            .filter(|member| Some(member.id) != except)
            .any(|member| member.peer_urls.iter().any(|url| urls.contains(url)))
    }

    /// Converts all members to etcd's messages.
    pub fn to_messages(&self) -> Vec<etcdserverpb::Member> {
        self.iter().map(Member::to_message).collect()
    }

    /// Applies a change. A change that contradicts earlier ones fails and changes nothing.
    pub(crate) fn change(&mut self, change: MemberChange) -> Result<(), &'static str> {
        match change {
            MemberChange::Added {
                id,
                is_learner,
                peer_urls,
            } => {
                let member = Member {
                    id,
                    is_learner,
                    peer_urls,
                    ..Member::default()
                };
                return self.enter(member);
            }
            MemberChange::Removed { id } => {
                self.by_id.remove(&id).ok_or(UNKNOWN)?;
                self.removed.insert(id);
            }
            MemberChange::Promoted { id } => self.member(id)?.is_learner = false,
            MemberChange::Updated { id, peer_urls } => self.member(id)?.peer_urls = peer_urls,
            MemberChange::Published {
                id,
                name,
                client_urls,
            } => {
                let member = self.member(id)?;
                (member.name, member.client_urls) = (name, client_urls);
            }
        }
        Ok(())
    }

    /// Adds a member with all its fields. Fails if its id is 0 or was used before.
    pub(crate) fn enter(&mut self, member: Member) -> Result<(), &'static str> {
        if member.id == 0 {
            return Err("0 is not a member's id");
        }
        if self.is_removed(member.id) {
            return Err("the member was removed before");
        }
        if self.by_id.contains_key(&member.id) {
            return Err("the member is there already");
        }
        self.by_id.insert(member.id, member);
        Ok(())
    }

    /// Adds the id of a removed member. Fails if a present member has it.
    pub(crate) fn enter_removed(&mut self, id: u64) -> Result<(), &'static str> {
        if self.by_id.contains_key(&id) {
            return Err("a removed member is there");
        }
        self.removed.insert(id);
        Ok(())
    }

    fn member(&mut self, id: u64) -> Result<&mut Member, &'static str> {
        self.by_id.get_mut(&id).ok_or(UNKNOWN)
    }
}

const UNKNOWN: &str = "there is no such member";

/// Checks of a strict cluster before a change of its members: would a majority of the voters be
/// members that have started? The caller checks in addition whether the members are connected at
/// present.
impl Members {
    /// Returns whether a voter that has not started may be added.
    pub fn may_add_voter(&self) -> bool {
        let (started, voters) = self.started_of_voters(None);
        // A single started member may become a cluster of two, although one of two is no majority.
        (started, voters) == (1, 1) || started >= quorum(voters + 1)
    }

    /// Returns whether this member may be removed. A learner may always be.
    pub fn may_remove(&self, id: u64) -> bool {
        let (started, voters) = self.started_of_voters(Some(id));
        self.get(id).is_some_and(|member| member.is_learner) || started >= quorum(voters)
    }

    /// Returns whether a learner may become a voter; it counts as started.
    pub fn may_promote(&self) -> bool {
        let (started, voters) = self.started_of_voters(None);
        started + 1 >= quorum(voters + 1)
    }

    fn started_of_voters(&self, except: Option<u64>) -> (usize, usize) {
        let voters = || self.voters().filter(|member| Some(member.id) != except);
        let started = voters().filter(|member| member.is_started()).count();
        (started, voters().count())
    }
}

/// The number of votes that make a majority.
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(id: u64, is_learner: bool) -> MemberChange {
        MemberChange::Added {
            id,
            is_learner,
            peer_urls: vec![format!("http://h:{id}")],
        }
    }

    fn published(id: u64) -> MemberChange {
        MemberChange::Published {
            id,
            name: format!("n{id}"),
            client_urls: Vec::new(),
        }
    }

    fn members(changes: impl IntoIterator<Item = MemberChange>) -> Members {
        let mut members = Members::default();
        for change in changes {
            members.change(change).unwrap();
        }
        members
    }

    #[test]
    fn a_removed_member_never_comes_back() {
        let mut members = members([added(1, false), added(2, true)]);
        members.change(MemberChange::Removed { id: 2 }).unwrap();
        let before = members.clone();
        assert!(members.change(added(2, false)).is_err());
        assert!(members.is_removed(2) && !members.is_removed(1));
        assert_eq!(members, before);
    }

    #[test]
    fn a_change_that_contradicts_earlier_ones_is_refused() {
        let mut members = members([added(1, false)]);
        assert!(members.change(added(1, true)).is_err());
        assert!(members.change(added(0, true)).is_err());
        assert!(members.change(published(2)).is_err());
        assert!(members.change(MemberChange::Promoted { id: 2 }).is_err());
        assert!(members.change(MemberChange::Removed { id: 2 }).is_err());
        assert!(members.enter_removed(1).is_err());
    }

    #[test]
    fn a_strict_cluster_keeps_a_started_majority() {
        let one = members([added(1, false), published(1)]);
        assert!(one.may_add_voter(), "a cluster of one may grow");
        assert!(!one.may_remove(1), "the last one stays");
        let two = members([added(1, false), published(1), added(2, false)]);
        assert!(!two.may_add_voter(), "one started of three");
        assert!(two.may_remove(2), "one started of one");
        assert!(!two.may_remove(1), "none started of one");
        assert!(two.may_promote(), "two started of three");
        let three = members((1..=3).flat_map(|id| [added(id, false), published(id)]));
        assert!(three.may_add_voter() && three.may_remove(1));
    }

    #[test]
    fn a_learner_may_always_be_removed() {
        let members = members([added(1, false), added(2, true)]);
        assert!(!members.may_remove(1));
        assert!(members.may_remove(2));
        assert_eq!(members.voters().count(), 1);
        assert_eq!(members.learners().count(), 1);
    }
}
