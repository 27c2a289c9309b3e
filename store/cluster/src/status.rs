//! The state of a node as request tasks see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;

use crate::{Agreements, Error, Replica};

/// A node's state at a moment.
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
    /// Findings of the comparison of the members' states, since the start.
    pub agreements: Agreements,
    /// A snapshot from the leader is being imported.
    pub importing: bool,
    /// The log has no room: this member accepts no entries of the leader, and refuses writes
    /// of its clients.
    pub full: bool,
}

/// The parts of the state that every request needs; the driver writes them.
#[derive(Debug, Default)]
pub(crate) struct PublishedStatus {
    term: AtomicU64,
    /// This member leads and is the only voter: everything acknowledged is applied here,
    /// and a read needs no confirmation.
    alone: AtomicBool,
    /// The cluster has removed this member.
    removed: AtomicBool,
}

impl PublishedStatus {
    /// Publishes the replica's state. Receivers of `status` are notified when the term or the
    /// leader has changed.
    pub fn publish(&self, replica: &Replica, status: &watch::Sender<Status>) {
        let now = replica.status();
        self.term.store(now.term, Ordering::Relaxed);
        // Release: a thread that reads `true` also sees everything that was applied before.
        self.alone.store(replica.leads_alone(), Ordering::Release);
        let removed = matches!(replica.failure(), Some(Error::Removed { .. }));
        self.removed.store(removed, Ordering::Release);
        status.send_if_modified(|known| {
            let before = std::mem::replace(known, now);
            let has_new_leader = now.leader != 0 && now.leader != before.leader;
            known.leader_changes = before.leader_changes + u64::from(has_new_leader);
            (before.term, before.leader) != (now.term, now.leader)
        });
    }

    pub fn term(&self) -> u64 {
        self.term.load(Ordering::Relaxed)
    }

    /// Whether the cluster has removed this member.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Whether this member leads and is the only voter.
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire)
    }
}
