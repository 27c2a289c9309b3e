//! Members that send to this one: their open connections, and counts of their frames. A sender
//! need not be in the table of members.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::Lane;
use crate::lock::lock;

#[derive(Default)]
pub(crate) struct Senders {
    received: Mutex<HashMap<u64, Arc<Received>>>,
    /// Open connections by sender and lane; a new one ends its predecessor through the
    /// `Notify`.
    incoming: Mutex<HashMap<(u64, Lane), Arc<Notify>>>,
}

impl Senders {
    /// Counts of the frames that `from` sends.
    pub fn received_from(&self, from: u64) -> Arc<Received> {
        Arc::clone(lock(&self.received).entry(from).or_default())
    }

    /// Locks the table of incoming connections.
    pub fn incoming(&self) -> MutexGuard<'_, HashMap<(u64, Lane), Arc<Notify>>> {
        lock(&self.incoming)
    }

    /// Removes the counts of a sender that has no open connection.
    pub fn forget_unless_connected(&self, from: u64) {
        let mut received = lock(&self.received);
        let idle = received
            .get(&from)
            .is_some_and(|received| received.connected().is_empty());
        if idle {
            received.remove(&from);
        }
    }
}

/// Counts of the frames from one sender.
#[derive(Default)]
pub(crate) struct Received {
    frames: AtomicU64,
    bytes: AtomicU64,
    /// Connections that broke, or that ended because of what came.
    failures: AtomicU64,
    /// Lanes with an open incoming connection.
    connected: Mutex<HashSet<Lane>>,
}

impl Received {
    pub fn count(&self, lane: Lane, bytes: usize) {
        assert_ne!(
            lane,
            Lane::Snapshot,
            "frames of streams are not counted here"
        );
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Frames and bytes so far.
    pub fn totals(&self) -> (u64, u64) {
        let frames = self.frames.load(Ordering::Relaxed);
        (frames, self.bytes.load(Ordering::Relaxed))
    }

    pub fn connected(&self) -> MutexGuard<'_, HashSet<Lane>> {
        lock(&self.connected)
    }
}
