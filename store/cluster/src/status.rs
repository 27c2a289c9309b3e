//! The state of a node as request tasks see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Replica;

/// A node's state at a moment. The fields are read one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Raft's term.
    pub term: u64,
    /// Id of the leader, as far as this member knows; 0 if it knows of none.
    pub leader: u64,
    /// Index of the newest batch that was appended.
    pub index: u64,
    /// Index of the newest batch that is applied; at most `index`.
    pub applied_index: u64,
    /// Number of commands that wait to be evaluated.
    pub waiting: usize,
    /// Number of times that this member saw a new leader, since the start. The same leader
    /// counts again if there was none in between.
    pub leader_changes: u64,
    /// Leases that this member, as a leader, ended because they were not renewed, since the
    /// start.
    pub leases_expired: u64,
    /// The power failed or files were damaged, and this member may lack entries that it has
    /// acknowledged. It does not vote until it has them back.
    pub rejoining: bool,
    /// How often this member, as a leader, sent its heartbeats later than twice their
    /// interval, since the start.
    pub late_heartbeats: u64,
    /// Rounds of reads that were repeated because no answer arrived, since the start.
    pub lost_read_rounds: u64,
    /// Reads that ended with a timeout because they were not confirmed, since the start.
    pub reads_given_up: u64,
    /// A snapshot from the leader is being imported.
    pub importing: bool,
    /// The log has no room: this member accepts no entries of the leader, and refuses writes
    /// of its clients.
    pub full: bool,
}

/// The leader and the term, as far as a member knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Raft's term.
    pub term: u64,
    /// The leader's id; 0 if there is none or none is known.
    pub leader: u64,
}

/// The state of the replica as other threads may read it; the driver writes it.
#[derive(Debug, Default)]
pub(crate) struct PublishedStatus {
    term: AtomicU64,
    leader: AtomicU64,
    index: AtomicU64,
    applied_index: AtomicU64,
    leader_changes: AtomicU64,
    leases_expired: AtomicU64,
    rejoining: AtomicBool,
    late_heartbeats: AtomicU64,
    lost_read_rounds: AtomicU64,
    reads_given_up: AtomicU64,
    importing: AtomicBool,
    full: AtomicBool,
    /// This member leads and is the only voter: everything acknowledged is applied here,
    /// and a read needs no confirmation.
    alone: AtomicBool,
}

impl PublishedStatus {
    /// Publishes the replica's state.
    pub fn publish(&self, replica: &Replica) {
        for (to, number) in [
            (&self.term, replica.term()),
            (&self.leader, replica.leader()),
            (&self.index, replica.index()),
            (&self.applied_index, replica.applied_index()),
            (&self.leases_expired, replica.leases_expired()),
            (&self.late_heartbeats, replica.late_heartbeats()),
            (&self.lost_read_rounds, replica.lost_read_rounds()),
            (&self.reads_given_up, replica.reads_given_up()),
        ] {
            to.store(number, Ordering::Relaxed);
        }
        for (to, state) in [
            (&self.rejoining, replica.is_rejoining()),
            (&self.importing, replica.is_importing()),
            (&self.full, replica.is_full()),
        ] {
            to.store(state, Ordering::Relaxed);
        }
        // Release: a thread that reads `true` also sees everything that was applied before.
        self.alone.store(replica.leads_alone(), Ordering::Release);
    }

    /// Counts a change of the leader.
    pub fn count_leader_change(&self) {
        self.leader_changes.fetch_add(1, Ordering::Relaxed);
    }

    pub fn term(&self) -> u64 {
        self.term.load(Ordering::Relaxed)
    }

    /// Whether this member leads and is the only voter.
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire)
    }

    /// The state now; `waiting` is the number of commands that wait to be evaluated.
    pub fn status(&self, waiting: usize) -> Status {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let is_set = |state: &AtomicBool| state.load(Ordering::Relaxed);
        Status {
            term: load(&self.term),
            leader: load(&self.leader),
            applied_index: load(&self.applied_index),
            index: load(&self.index),
            waiting,
            leader_changes: load(&self.leader_changes),
            leases_expired: load(&self.leases_expired),
            rejoining: is_set(&self.rejoining),
            late_heartbeats: load(&self.late_heartbeats),
            lost_read_rounds: load(&self.lost_read_rounds),
            reads_given_up: load(&self.reads_given_up),
            importing: is_set(&self.importing),
            full: is_set(&self.full),
        }
    }
}
