//! Counters and states for the metrics of a member's health.

use super::Replica;

impl Replica {
    /// Whether this member leads a cluster that has other voters.
    pub(super) fn has_followers(&self) -> bool {
        self.leads() && !self.leads_alone()
    }

    /// How often this leader sent its heartbeats too late, since the start.
    pub fn late_heartbeats(&self) -> u64 {
        self.late_heartbeats
    }

    /// Rounds of reads that were repeated because no answer arrived, since the start.
    pub fn lost_read_rounds(&self) -> u64 {
        self.reads.lost_rounds()
    }

    /// Local reads that ended with a timeout, since the start.
    pub fn reads_given_up(&self) -> u64 {
        self.reads.given_up()
    }

    /// Whether a snapshot from the leader is being imported.
    pub fn is_importing(&self) -> bool {
        self.incoming.is_some()
    }
}
