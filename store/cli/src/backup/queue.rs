//! Changes that were received and are not stored yet.
//!
//! ```text
//!   watch, polls ──► batches, each of at most a quarter of a second ──► tail
//! ```
//!
//! While the queue is full, the watch is not read: the server's flow control holds the rest.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use backup::{ChangeBatch, ChangedRow, ClusterHash};
use environment::real::RealClock;
use environment::{Clock, Instant};
use etcd_snapshot::LeaseRecord;
use tokio::sync::Notify;

/// Bytes of rows with which the queue is full.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Bytes of rows that are stored as one object, but for one that is larger alone.
const OBJECT_BYTES_MAX: usize = 16 << 20;
/// Changes of this time have the same time in the backup.
const BATCH_TIME_MS: u64 = 250;

/// Batches that wait.
#[derive(Debug)]
pub(super) struct TailQueue {
    state: RefCell<Waiting>,
    /// Wakes the tail.
    arrived: Notify,
    /// Wakes the watch.
    taken: Notify,
}

#[derive(Debug)]
struct Waiting {
    batches: VecDeque<WaitingBatch>,
    bytes: usize,
    /// The revision behind the last one that was received.
    next: i64,
}

#[derive(Debug)]
struct WaitingBatch {
    batch: ChangeBatch,
    /// Bytes of the values of its rows.
    bytes: usize,
    begun_ms: u64,
    arrived: Instant,
}

/// Additions of the polls.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Whether `granted` has all leases.
    pub lists_leases: bool,
    pub granted: Vec<LeaseRecord>,
    pub ended: Vec<i64>,
    pub hash: Option<ClusterHash>,
}

impl TailQueue {
    /// An empty queue; `next` is the first revision that will come.
    pub(super) fn new(next: i64) -> TailQueue {
        let state = Waiting {
            batches: VecDeque::new(),
            bytes: 0,
            next,
        };
        TailQueue {
            state: state.into(),
            arrived: Notify::new(),
            taken: Notify::new(),
        }
    }

    /// The last revision that was received.
    pub(super) fn received(&self) -> i64 {
        self.state.borrow().next - 1
    }

    /// When the oldest of what waits arrived.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let state = self.state.borrow();
        state.batches.front().map(|waiting| waiting.arrived)
    }

    /// Waits until there is room.
    pub(super) async fn room(&self) {
        while self.state.borrow().bytes >= QUEUE_BYTES_MAX {
            self.taken.notified().await;
        }
    }

    /// Adds all rows of the revisions up to `last`.
    pub(super) fn add_rows(&self, rows: Vec<ChangedRow>, last: i64) {
        let mut state = self.state.borrow_mut();
        let bytes = rows.iter().map(|row| row.value.len()).sum::<usize>();
        state.bytes += bytes;
        let newest = state.newest();
        newest.bytes += bytes;
        newest.batch.rows.extend(rows);
        newest.batch.last = last;
        state.next = last + 1;
        self.arrived.notify_one();
    }

    /// Adds what no row shows.
    pub(super) fn add_notes(&self, notes: Notes) {
        let mut state = self.state.borrow_mut();
        let batch = &mut state.newest().batch;
        if notes.lists_leases {
            batch.lists_leases = true;
            batch.granted.clear();
            batch.ended.clear();
        }
        // A reader takes the ended ones last.
        let is_back = |id: &i64| notes.granted.iter().any(|lease| lease.id == *id);
        batch.ended.retain(|id| !is_back(id));
        batch.granted.extend(notes.granted);
        batch.ended.extend(notes.ended);
        batch.hashes.extend(notes.hash);
        self.arrived.notify_one();
    }

    /// Waits until there is something to store.
    pub(super) async fn arrival(&self) {
        while self.state.borrow().batches.is_empty() {
            self.arrived.notified().await;
        }
    }

    /// Leases that rows name, of those that `lease_of` returns, each once.
    pub(super) fn leases(&self, lease_of: impl Fn(&ChangedRow) -> Option<i64>) -> Vec<i64> {
        let state = self.state.borrow();
        let rows = state.batches.iter().flat_map(|waiting| &waiting.batch.rows);
        let leases: BTreeSet<i64> = rows.filter_map(lease_of).collect();
        leases.into_iter().collect()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.state.borrow().batches.is_empty()
    }

    /// The oldest batches that fit into one object; at least one if any waits.
    pub(super) fn take(&self) -> Vec<ChangeBatch> {
        let mut state = self.state.borrow_mut();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(waiting) = state.batches.front() {
            bytes += waiting.batch.encoded_bytes();
            if bytes > OBJECT_BYTES_MAX && !taken.is_empty() {
                break;
            }
            let waiting = state.batches.pop_front().expect("it was seen above");
            state.bytes -= waiting.bytes;
            taken.push(waiting.batch);
        }
        self.taken.notify_one();
        taken
    }
}

impl Waiting {
    /// The batch to which something that arrives now is added.
    fn newest(&mut self) -> &mut WaitingBatch {
        let now_ms = now_ms();
        let is_old = |waiting: &WaitingBatch| {
            let is_large = waiting.bytes >= OBJECT_BYTES_MAX / 4;
            now_ms.saturating_sub(waiting.begun_ms) >= BATCH_TIME_MS || is_large
        };
        if self.batches.back().is_none_or(is_old) {
            let batch = ChangeBatch {
                first: self.next,
                last: self.next - 1,
                ..ChangeBatch::default()
            };
            self.batches.push_back(WaitingBatch {
                batch,
                bytes: 0,
                begun_ms: now_ms,
                arrived: RealClock.now(),
            });
        }
        let newest = self.batches.back_mut().expect("it was added above");
        newest.batch.time_ms = now_ms;
        newest
    }
}

/// Unix time in milliseconds.
pub(super) fn now_ms() -> u64 {
    RealClock.unix_time().as_millis() as u64
}
