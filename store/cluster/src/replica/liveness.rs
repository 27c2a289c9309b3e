//! Which other members have sent this one a message recently, by its own clock.
//!
//! The Raft library keeps such a record too, but clears it at every check of the quorum:
//! a healthy member is missing in it until its next message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use environment::Instant;
use revisions::Members;

/// When the last message of each other member arrived.
#[derive(Debug)]
pub(super) struct Liveness {
    last: BTreeMap<u64, Instant>,
    /// A member that was silent for this time does not count as healthy.
    silence: Duration,
}

impl Liveness {
    pub fn new(election_timeout: Duration) -> Liveness {
        Liveness {
            last: BTreeMap::new(),
            silence: election_timeout,
        }
    }

    pub fn is_recent(&self, member: u64, now: Instant) -> bool {
        let last = self.last.get(&member);
        last.is_some_and(|last| now.saturating_since(*last) < self.silence)
    }

    /// Notes that a message of this member has arrived. `members` returns the members that
    /// are applied here.
    pub fn note(&mut self, member: u64, now: Instant, members: impl FnOnce() -> Arc<Members>) {
        if self.last.insert(member, now).is_none() {
            // Ids of removed members are never used again, so their records can go.
            let members = members();
            self.last
                .retain(|id, _| *id == member || members.get(*id).is_some());
        }
    }
}
