//! Collects the operations and watches of all clients.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use history::{Moment, Operation, Outcome as Known, Request, Watch};

/// Counts of one kind of operation, by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub done: u64,
    pub unknown: u64,
    pub refused: u64,
}

/// Shared by all tasks of clients and watchers.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    ended: AtomicBool,
    operations: Mutex<Vec<Operation>>,
    watches: Mutex<Vec<Watch>>,
    tallies: Mutex<BTreeMap<&'static str, Tally>>,
    pub acknowledged: AtomicU64,
    pub unknown: AtomicU64,
    pub events: AtomicU64,
    /// The newest revision that any answer named.
    pub revision: AtomicI64,
}

impl Recorder {
    pub fn new() -> Recorder {
        Recorder {
            began: Instant::now(),
            ended: AtomicBool::new(false),
            operations: Mutex::default(),
            watches: Mutex::default(),
            tallies: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            events: AtomicU64::new(0),
            revision: AtomicI64::new(1),
        }
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The present moment.
    pub fn moment(&self) -> Moment {
        self.elapsed().as_nanos() as Moment
    }

    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub fn record(&self, operation: Operation) {
        let mut tallies = self.tallies.lock().expect("no holder panics");
        let tally = tallies.entry(kind(&operation.request)).or_default();
        match &operation.outcome {
            Known::Done(answer) => {
                tally.done += 1;
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                self.revision.fetch_max(answer.revision, Ordering::Relaxed);
            }
            Known::Unknown { .. } => {
                tally.unknown += 1;
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Known::Refused { .. } => tally.refused += 1,
        }
        drop(tallies);
        let mut operations = self.operations.lock().expect("no holder panics");
        operations.push(operation);
    }

    pub fn record_watch(&self, watch: Watch) {
        let mut tallies = self.tallies.lock().expect("no holder panics");
        tallies.entry("watch").or_default().done += 1;
        drop(tallies);
        self.watches.lock().expect("no holder panics").push(watch);
    }

    /// Counts of each kind of operation.
    pub fn tallies(&self) -> BTreeMap<&'static str, Tally> {
        self.tallies.lock().expect("no holder panics").clone()
    }

    /// Takes all records.
    pub fn take(&self) -> (Vec<Operation>, Vec<Watch>) {
        let operations = std::mem::take(&mut *self.operations.lock().expect("no holder panics"));
        let watches = std::mem::take(&mut *self.watches.lock().expect("no holder panics"));
        (operations, watches)
    }
}

fn kind(request: &Request) -> &'static str {
    match request {
        Request::Put { .. } => "put",
        Request::Delete { .. } => "delete",
        Request::Get {
            serializable: true, ..
        } => "get, serializable",
        Request::Get { .. } => "get, linearizable",
        Request::Swap { .. } => "compare and swap",
        Request::Batch { .. } => "transaction",
        Request::Compact { .. } => "compaction",
        Request::Grant { .. } => "lease grant",
        Request::Revoke { .. } => "lease revoke",
        Request::Renew { .. } => "lease keep-alive",
    }
}
