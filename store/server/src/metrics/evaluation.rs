//! Metrics that the node reports: of evaluated commands, with a log line about a slow one, and of
//! the other members.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::Transfer;
use environment::{Clock, Throttle};
use revisions::{Command, TraceContext};
use tracing::{info, warn};

use super::Counter;
use super::histogram::{COMPACTION_MILLISECONDS, Histogram, MEMORY_SECONDS};
use super::peer_times::PeerMetrics;
use crate::lock;
use crate::spans::Spans;

/// Shortest time between two log lines about slow evaluations.
const SLOW_LOGGED_EVERY: Duration = Duration::from_secs(1);

/// Commands by name, in etcd's words.
const OPERATIONS: [&str; 8] = [
    "Put",
    "DeleteRange",
    "Txn",
    "Compaction",
    "LeaseGrant",
    "LeaseRevoke",
    "Alarm",
    "ClusterMemberAttrSet",
];

/// Index of a command's name; changes of the membership and of users have none.
fn place(command: &Command) -> Option<usize> {
    Some(match command.plain() {
        Command::Put(_) => 0,
        Command::DeleteRange(_) => 1,
        Command::Txn(_) => 2,
        Command::Compact(_) => 3,
        Command::LeaseGrant(_) => 4,
        Command::LeaseRevoke(_) => 5,
        Command::Alarm(_) => 6,
        Command::MemberPublish(_) => 7,
        Command::MemberAdd(_)
        | Command::MemberRemove(_)
        | Command::MemberUpdate(_)
        | Command::MemberPromote(_)
        | Command::Auth(_)
        | Command::Downgrade(_)
        | Command::Follow(_)
        | Command::As(_) => return None,
    })
}

/// Times of one kind of command.
#[derive(Debug)]
struct Times {
    done: Histogram,
    refused: Histogram,
}

/// Receives the replica thread's reports ([`cluster::Observer`]).
#[derive(Debug)]
pub(crate) struct EvaluationMetrics {
    clock: Arc<dyn Clock>,
    times: [Times; OPERATIONS.len()],
    /// An evaluation that takes longer is counted and logged.
    slow: Duration,
    pub(super) slow_total: Counter,
    slow_lines: Mutex<Throttle>,
    /// Time from a compaction to the end of its sweep.
    pub(super) sweeps: Histogram,
    /// When the newest sweep ended, in seconds since 1970; 0 before the first.
    pub(super) swept_at: Counter,
    pub(super) peers: PeerMetrics,
    /// `None` if calls are not traced.
    spans: Option<Arc<Spans>>,
}

impl EvaluationMetrics {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        slow: Duration,
        spans: Option<Arc<Spans>>,
    ) -> EvaluationMetrics {
        EvaluationMetrics {
            clock,
            times: std::array::from_fn(|_| Times {
                done: Histogram::new(MEMORY_SECONDS),
                refused: Histogram::new(MEMORY_SECONDS),
            }),
            slow,
            slow_total: Counter::default(),
            slow_lines: Mutex::new(Throttle::new(SLOW_LOGGED_EVERY)),
            sweeps: Histogram::new(COMPACTION_MILLISECONDS),
            swept_at: Counter::default(),
            peers: PeerMetrics::default(),
            spans,
        }
    }

    /// Name, success and times of each kind of command that was evaluated at least once.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, &Histogram)> {
        let named = OPERATIONS.into_iter().zip(&self.times);
        let each = named.flat_map(|(name, times)| {
            [(name, "true", &times.done), (name, "false", &times.refused)]
        });
        each.filter(|(_, _, times)| !times.is_empty())
    }

    /// Counts a slow evaluation, and logs it in etcd's words.
    fn note_slow(&self, operation: &str, done: bool, took: Duration) {
        self.slow_total.add(1);
        let line = lock(&self.slow_lines).note(self.clock.now(), 1);
        if let Some(times) = line {
            let expected = self.slow;
            warn!(
                operation,
                done,
                ?took,
                ?expected,
                times,
                "apply request took too long"
            );
        }
    }
}

impl cluster::Observer for EvaluationMetrics {
    fn evaluated(&self, command: &Command, done: bool, took: Duration) {
        if let Some(place) = place(command) {
            let times = &self.times[place];
            if done { &times.done } else { &times.refused }.observe(took);
        }
        if took > self.slow {
            let operation = place(command).map_or("Member", |place| OPERATIONS[place]);
            self.note_slow(operation, done, took);
        }
    }

    fn swept(&self, took: Duration) {
        self.sweeps.add(1000.0 * took.as_secs_f64());
        info!(?took, "finished scheduled compaction");
        self.swept_at.set(self.clock.unix_time().as_secs());
    }

    fn round_trip(&self, member: u64, took: Duration) {
        self.peers.round_trip(member, took);
    }

    fn carried_out(&self, trace: &TraceContext, done: bool, took: Duration) {
        if let Some(spans) = &self.spans {
            spans.carried_out(&*self.clock, trace, done, took);
        }
    }

    fn snapshot_began(&self, transfer: Transfer, member: u64) {
        self.peers.snapshot_began(transfer, member);
    }

    fn snapshot_ended(&self, transfer: Transfer, member: u64, success: bool, took: Duration) {
        self.peers.snapshot_ended(transfer, member, success, took);
    }
}
