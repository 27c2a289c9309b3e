//! Which other members have sent this one a message recently, by its own clock.
//!
//! The Raft library keeps such a record too, but clears it at every check of the quorum:
//! a healthy member is missing in it until its next message.

use std::collections::BTreeMap;
use std::time::Duration;

use environment::Instant;

use super::Replica;

/// When the last message of each other member arrived.
#[derive(Debug)]
pub(super) struct Heard {
    last: BTreeMap<u64, Instant>,
    /// A member that was silent for this time does not count as healthy.
    silence: Duration,
}

impl Heard {
    pub fn new(election_timeout: Duration) -> Heard {
        Heard {
            last: BTreeMap::new(),
            silence: election_timeout,
        }
    }

    fn is_recent(&self, member: u64, now: Instant) -> bool {
        let last = self.last.get(&member);
        last.is_some_and(|last| now.saturating_since(*last) < self.silence)
    }
}

impl Replica {
    /// Notes that a message of this member has arrived.
    pub(super) fn note_heard(&mut self, member: u64) {
        let now = self.clock.now();
        if self.heard.last.insert(member, now).is_none() {
            // Ids of removed members are never used again, so their records can go.
            let members = self.reader.members();
            self.heard
                .last
                .retain(|id, _| *id == member || members.get(*id).is_some());
        }
    }

    /// Whether a message of this member arrived within an election timeout. Always true for
    /// this member itself.
    pub(super) fn hears(&self, member: u64) -> bool {
        member == self.member_id || self.heard.is_recent(member, self.clock.now())
    }
}
