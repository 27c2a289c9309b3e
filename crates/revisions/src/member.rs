//! Who belongs to the cluster.
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
    /// Empty until the member has started once.
    pub name: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until the member has started once.
    pub client_urls: Vec<String>,
    /// Receives everything, votes on nothing.
    pub is_learner: bool,
}

/// Something about the members changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A new one.
    Added {
        /// Never 0, never that of an earlier member.
        id: u64,
        /// Without a vote, for now.
        is_learner: bool,
        /// Where other members reach it.
        peer_urls: Vec<String>,
    },
    /// One less.
    Removed {
        /// Whose.
        id: u64,
    },
    /// A learner votes from now on.
    Promoted {
        /// Whose.
        id: u64,
    },
    /// A member is reached elsewhere.
    Updated {
        /// Whose.
        id: u64,
        /// Where from now on.
        peer_urls: Vec<String>,
    },
    /// A member has started and says who it is.
    Published {
        /// Whose.
        id: u64,
        /// Its name.
        name: String,
        /// Where clients reach it.
        client_urls: Vec<String>,
    },
}

/// All members, and the ids of those that were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    by_id: BTreeMap<u64, Member>,
    removed: BTreeSet<u64>,
}

impl Member {
    /// It has told its name, so it was up at least once.
    pub fn is_started(&self) -> bool {
        !self.name.is_empty()
    }

    /// As clients see it.
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
    /// Whose change it is.
    pub fn id(&self) -> u64 {
        match *self {
            MemberChange::Added { id, .. }
            | MemberChange::Removed { id }
            | MemberChange::Promoted { id }
            | MemberChange::Updated { id, .. }
            | MemberChange::Published { id, .. } => id,
        }
    }

    /// Raft counts votes differently afterwards.
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
    /// One of them.
    pub fn get(&self, id: u64) -> Option<&Member> {
        self.by_id.get(&id)
    }

    /// All, ascending by id: etcd's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.by_id.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// There is none: a directory that waits to join a cluster.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Those who vote, ascending by id.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.iter().filter(|member| !member.is_learner)
    }

    /// Those who do not vote, ascending by id.
    pub fn learners(&self) -> impl Iterator<Item = &Member> {
        self.iter().filter(|member| member.is_learner)
    }

    /// A member had this id, and no other will have it again.
    pub fn is_removed(&self, id: u64) -> bool {
        self.removed.contains(&id)
    }

    /// Ids of former members, ascending.
    pub fn removed(&self) -> impl ExactSizeIterator<Item = u64> {
        self.removed.iter().copied()
    }

    /// Some member, other than `id`, is reached under one of these.
    pub(crate) fn has_peer_url(&self, urls: &[String], except: Option<u64>) -> bool {
        self.iter()
            .filter(|member| Some(member.id) != except)
            .any(|member| member.peer_urls.iter().any(|url| urls.contains(url)))
    }

    /// As clients see them.
    pub fn to_messages(&self) -> Vec<etcdserverpb::Member> {
        self.iter().map(Member::to_message).collect()
    }

    /// Takes over a change; what contradicts the changes before it is refused
    /// and changes nothing.
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

    /// Takes in a whole member.
    pub(crate) fn enter(&mut self, member: Member) -> Result<(), &'static str> {
        if member.id == 0 {
            return Err("0 is nobody's id");
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

    /// Remembers a former member.
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

/// What a strict cluster asks before it changes: would a majority of the
/// voters then be members that have started? Whether they are up right now is
/// for the caller to say, who knows.
impl Members {
    /// With one more voter, which has not started.
    pub fn may_add_voter(&self) -> bool {
        let (started, voters) = self.started_of_voters(None);
        // One member that is restored to a cluster of two.
        (started, voters) == (1, 1) || started >= quorum(voters + 1)
    }

    /// Without this member. Learners may always go.
    pub fn may_remove(&self, id: u64) -> bool {
        let (started, voters) = self.started_of_voters(Some(id));
        self.get(id).is_some_and(|member| member.is_learner) || started >= quorum(voters)
    }

    /// With one learner as a voter, which counts as started.
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

/// How many of so many voters decide.
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
    fn what_contradicts_earlier_changes_is_refused() {
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
    fn learners_may_go_whatever_the_voters_are() {
        let members = members([added(1, false), added(2, true)]);
        assert!(!members.may_remove(1));
        assert!(members.may_remove(2));
        assert_eq!(members.voters().count(), 1);
        assert_eq!(members.learners().count(), 1);
    }
}
