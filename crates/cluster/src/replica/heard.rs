//! Which other members this one has heard a moment ago, by its own clock.
//!
//! Raft's own account of that is cleared at every check of the quorum, so a member
//! that is well may be missing in it until its next word.

use std::collections::BTreeMap;
use std::time::Duration;

use environment::Instant;

use super::Replica;

/// When each other member was last heard.
#[derive(Debug)]
pub(super) struct Heard {
    last: BTreeMap<u64, Instant>,
    /// One that is well is never silent for so long.
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
    /// A member has said something.
    pub(super) fn note_heard(&mut self, member: u64) {
        let now = self.clock.now();
        if self.heard.last.insert(member, now).is_none() {
            // Ids never return.
            let members = self.reader.members();
            self.heard
                .last
                .retain(|id, _| *id == member || members.get(*id).is_some());
        }
    }

    /// A member has been heard within an election timeout; this one always.
    pub(super) fn hears(&self, member: u64) -> bool {
        member == self.member_id || self.heard.is_recent(member, self.clock.now())
    }
}
