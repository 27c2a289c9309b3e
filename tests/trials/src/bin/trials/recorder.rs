//! Collects the operations and watches of all clients, and counts what happened.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use history::{Moment, Operation, Outcome as Known, Request, Watch};

use crate::report::table;

/// Most errors that are kept as text.
const ERRORS_MAX: usize = 10;

/// Shared by all tasks of a load.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    ended: AtomicBool,
    /// Without, operations and watches are only counted.
    keeps: bool,
    records: Mutex<(Vec<Operation>, Vec<Watch>)>,
    notes: Mutex<Notes>,
    pub acknowledged: AtomicU64,
    pub events: AtomicU64,
    /// The newest revision that any answer named.
    pub revision: AtomicI64,
    pub streams_open: AtomicI64,
    pub leases_held: AtomicI64,
}

#[derive(Debug, Default)]
struct Notes {
    /// Operations by kind: answered, of unknown outcome, refused.
    tallies: BTreeMap<&'static str, [u64; 3]>,
    /// Other counts, by the table and the row that shows them.
    counts: BTreeMap<&'static str, BTreeMap<String, u64>>,
    errors: u64,
    first_errors: Vec<(Moment, String)>,
}

impl Recorder {
    pub fn new() -> Recorder {
        Recorder {
            began: Instant::now(),
            ended: AtomicBool::new(false),
            keeps: true,
            records: Mutex::default(),
            notes: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            events: AtomicU64::new(0),
            revision: AtomicI64::new(1),
            streams_open: AtomicI64::new(0),
            leases_held: AtomicI64::new(0),
        }
    }

    /// A recorder that only counts.
    pub fn that_counts() -> Recorder {
        Recorder {
            keeps: false,
            ..Recorder::new()
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no holder panics")
    }

    fn records(&self) -> MutexGuard<'_, (Vec<Operation>, Vec<Watch>)> {
        self.records.lock().expect("no holder panics")
    }

    /// The present moment.
    pub fn moment(&self) -> Moment {
        self.began.elapsed().as_nanos() as Moment
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Sleeps, but not long past the end.
    pub async fn rest(&self, duration: Duration) {
        const STEP: Duration = Duration::from_millis(50);
        let mut left = duration;
        while !left.is_zero() && !self.has_ended() {
            tokio::time::sleep(left.min(STEP)).await;
            left = left.saturating_sub(STEP);
        }
    }

    pub fn record(&self, operation: Operation) {
        let kind = kind(&operation.request);
        let outcome = match &operation.outcome {
            Known::Done(answer) => {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                self.revision.fetch_max(answer.revision, Ordering::Relaxed);
                0
            }
            Known::Unknown { .. } => 1,
            Known::Refused { .. } => 2,
        };
        if let Known::Unknown { reason } | Known::Refused { reason } = &operation.outcome {
            self.complain(kind, reason);
        }
        self.notes().tallies.entry(kind).or_default()[outcome] += 1;
        if self.keeps {
            self.records().0.push(operation);
        }
    }

    pub fn record_watch(&self, watch: Watch) {
        self.notes().tallies.entry("watch").or_default()[0] += 1;
        if self.keeps {
            self.records().1.push(watch);
        }
    }

    /// Counts something in a row of a table.
    pub fn count(&self, table: &'static str, row: &str) {
        let mut notes = self.notes();
        let rows = notes.counts.entry(table).or_default();
        *rows.entry(row.to_owned()).or_default() += 1;
    }

    /// The rows of a table of counts.
    pub fn counted(&self, table: &str) -> BTreeMap<String, u64> {
        self.notes().counts.get(table).cloned().unwrap_or_default()
    }

    /// Notes an error that a healthy server does not return.
    pub fn complain(&self, what: &str, error: impl Display) {
        let moment = self.moment();
        let mut notes = self.notes();
        notes.errors += 1;
        if notes.first_errors.len() < ERRORS_MAX {
            notes
                .first_errors
                .push((moment, format!("{what}: {error}")));
        }
    }

    /// Number of operations of unknown outcome.
    pub fn unknown(&self) -> u64 {
        self.notes().tallies.values().map(|tally| tally[1]).sum()
    }

    /// Number of all errors.
    pub fn errors(&self) -> u64 {
        self.notes().errors
    }

    /// The first errors, and when each was seen.
    pub fn first_errors(&self) -> Vec<(Moment, String)> {
        self.notes().first_errors.clone()
    }

    /// Operations by kind and all counts, as tables in Markdown.
    pub fn tables(&self) -> String {
        let notes = self.notes();
        let heads = ["operation", "answered", "outcome unknown", "refused"];
        let rows = notes.tallies.iter().map(|(kind, outcomes)| {
            let outcomes = outcomes.iter().map(u64::to_string);
            std::iter::once((*kind).to_owned())
                .chain(outcomes)
                .collect()
        });
        let mut text = table(&heads, rows);
        for (name, rows) in &notes.counts {
            let rows = rows
                .iter()
                .map(|(row, times)| vec![row.clone(), times.to_string()]);
            text = text + "\n" + &table(&[name, "times"], rows);
        }
        text
    }

    /// Takes all records.
    pub fn take(&self) -> (Vec<Operation>, Vec<Watch>) {
        std::mem::take(&mut self.records())
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
