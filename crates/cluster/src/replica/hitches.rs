//! What does not go as it should, for metrics.

use super::Replica;

impl Replica {
    /// This member leads others.
    pub(super) fn has_followers(&self) -> bool {
        self.leads() && !self.leads_alone()
    }

    /// Times that a leader's heartbeats came later than they should, since the start.
    pub fn late_heartbeats(&self) -> u64 {
        self.late_heartbeats
    }

    /// Rounds of reads that were repeated because no answer came, since the start.
    pub fn lost_read_rounds(&self) -> u64 {
        self.reads.lost_rounds()
    }

    /// Reads here that were given up, since the start.
    pub fn reads_given_up(&self) -> u64 {
        self.reads.given_up()
    }

    /// A snapshot of another member is being taken in.
    pub fn is_importing(&self) -> bool {
        self.incoming.is_some()
    }
}
