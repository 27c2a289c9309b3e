//! The role of this member, and what only that role has.
//!
//! ```text
//!   Follower ──elected──► Leader ──the change that removes it is applied──► Leaving
//!    ▲                      │
//!    └──── another leads ◄──┘
//! ```
//!
//! A learner, and a member that rejoins (`rejoin.rs`), are followers that do not stand for
//! election. What a follower has sent to the leader outlives its role, because this member
//! may become the leader before the answer arrives (`requests.rs`).

use environment::Instant;

use super::answer::Answer;
use super::leader::Leader;
use super::replica_core::Core;

/// This member's role.
#[derive(Debug)]
pub(super) enum Role {
    /// Another member leads, or none.
    Follower,
    /// This member leads, but may not evaluate commands yet.
    Leader(Box<Leader>),
    /// This member was removed while it led, and continues until the others know of that.
    Leaving(Leaving),
}

/// The state of a leader that was removed and has not ended yet (`removal.rs`).
#[derive(Debug)]
pub(super) struct Leaving {
    /// Index of the entry that removes this member.
    pub index: u64,
    /// Until then this member waits for all healthy voters, afterwards for a majority only.
    pub until: Instant,
}

impl Role {
    /// Everything that waited in the role and ends with it.
    pub fn into_waiting(self) -> Vec<Answer> {
        match self {
            Role::Follower | Role::Leaving(_) => Vec::new(),
            Role::Leader(leader) => leader.into_waiting(),
        }
    }

    /// Whether this member leads and evaluates commands.
    pub fn is_ready(&self) -> bool {
        self.leader().is_some_and(Leader::is_ready)
    }

    pub fn is_leader(&self) -> bool {
        self.leader().is_some()
    }

    /// Whether this member was elected and does not evaluate commands yet.
    pub fn is_catching_up(&self) -> bool {
        self.is_leader() && !self.is_ready()
    }

    pub fn is_leaving(&self) -> bool {
        matches!(self, Role::Leaving(_))
    }

    /// The leader, if this member leads.
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Role::Leader(leader) => Some(leader),
            Role::Follower | Role::Leaving(_) => None,
        }
    }

    pub fn leader_mut(&mut self) -> Option<&mut Leader> {
        match self {
            Role::Leader(leader) => Some(leader),
            Role::Follower | Role::Leaving(_) => None,
        }
    }

    /// The member to which leadership is being handed.
    pub fn transferee(&self, core: &Core) -> Option<u64> {
        let chosen = self.leader().and_then(|leader| leader.successor);
        chosen.or(core.raft().lead_transferee)
    }
}
