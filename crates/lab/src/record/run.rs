//! One run: one target, one workload, one process, one directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    DeviceWork, Disturbance, DurabilityJudgement, Histogram, Outcome, ProcessCosts, Steadiness,
    Taint, TaintKind, TargetIdentity, Verification,
};
use crate::workload::Workload;

/// What one run was and what it showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which point of the experiment.
    pub cell: Cell,
    /// Which side: see [`crate::record::Planned::arm`].
    pub arm: String,
    /// Which repetition; runs of one pair share their seed.
    pub pair: u32,
    /// How many runs of this cell, arm and pair came before it.
    pub attempt: u32,
    /// Which run of the record it was, from 0, in the order of time.
    pub number: u32,
    /// A tainted pair was repeated: this run counts no more.
    pub replaced: bool,
    /// What was measured.
    pub target: TargetIdentity,
    /// The workload as it was run: scaled, with one number of clients.
    pub workload: Workload,
    /// What keys, values and arrival times were drawn from.
    pub seed: u64,
    /// When the run began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How it ended. Numbers below count for [`Outcome::Measured`] only.
    pub outcome: Outcome,
    /// What the clients saw.
    pub load: LoadResult,
    /// Operations per second of the null target in this cell: the generator's own
    /// limit. None where servers are asked.
    #[serde(default)]
    pub ceiling: Option<f64>,
    /// Whether it had settled before it was measured.
    pub steadiness: Steadiness,
    /// The lab's own process, over the measured part. An embedded target works
    /// in there too.
    pub client: ProcessCosts,
    /// All server processes together; none for an embedded target.
    pub server: Option<ProcessCosts>,
    /// What the device did during the measured part.
    pub device: Option<DeviceWork>,
    /// The same, and what was still owed when it ended: up to the end of a
    /// `sync` right behind it.
    pub device_settled: Option<DeviceWork>,
    /// Bytes of keys and values that clients had acknowledged as written in the
    /// measured part.
    pub user_bytes_written: u64,
    /// Bytes that the data occupied on disk when the measured part had ended.
    pub footprint_bytes: Option<u64>,
    /// What else happened on the machine during the measured part.
    pub disturbance: Disturbance,
    /// Why the run should be repeated, or should have been.
    pub taints: Vec<Taint>,
    /// Whether what was acknowledged was there afterwards.
    pub verification: Verification,
    /// Whether the target did what its promise of durability takes.
    pub durability: DurabilityJudgement,
}

/// One point of an experiment. A field that the experiment does not vary is
/// the same in all its cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// For people, and what ties runs of a cell together.
    pub name: String,
    /// The workload's own name: one table or curve for each.
    pub workload: String,
    /// Clients at once.
    pub clients: u32,
    /// Connections that they share; for embedded targets, nothing.
    pub connections: u32,
    /// Mean length of a value.
    pub value_bytes: f64,
    /// Reads over writes, for heatmaps (etcd's rw-benchmark calls it ratio).
    pub rw_ratio: Option<f64>,
}

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Read of one key.
    Get,
    /// Write of one key.
    Put,
    /// Ordered read of several keys.
    Range,
}

/// What the clients saw in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Length of the measured part.
    pub seconds: f64,
    /// By kind of operation.
    pub kinds: BTreeMap<Kind, KindResult>,
    /// Operations, interval by interval, from the beginning of the warm-up on;
    /// those of the warm-up have a negative `at_seconds`.
    pub series: Vec<Interval>,
    /// What was asked for, in operations per second; none in a closed loop.
    pub rate_offered: Option<f64>,
    /// Operations that were due and had not begun, at most; open loop only.
    pub backlog_max: u64,
    /// The target could not follow the offered rate: there is no latency to
    /// speak of, since it grows as long as one waits.
    pub saturated: bool,
    /// How evenly the clients were served; none of a single one.
    #[serde(default)]
    pub fairness: Option<Fairness>,
    /// Threads of the lab that asked servers; 0 for embedded targets, whose
    /// clients are threads themselves.
    #[serde(default)]
    pub generator_threads: u32,
    /// Rates that a search tried, in the order in which it did.
    pub search: Vec<SearchStep>,
    /// The first few different errors, for people.
    pub errors: Vec<String>,
}

/// One kind of operation in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindResult {
    /// Answered with success.
    pub operations: u64,
    /// Answered with an error, or not at all.
    pub failed: u64,
    /// Point reads that found no key.
    pub not_found: u64,
    /// Keys that ranges returned.
    pub keys_returned: u64,
    /// Bytes of keys and values, read or written.
    pub user_bytes: u64,
    /// From the intended start to the answer, in nanoseconds. In a closed loop
    /// the intended start is the start.
    pub response: Histogram,
    /// From the start to the answer, in nanoseconds.
    pub service: Histogram,
}

/// How evenly several clients were served in the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Jain's index: 1 where all got as much, 1/n where one of n got everything.
    pub jain: f64,
    /// Operations of the client that got the fewest.
    pub least: u64,
    /// Of the one that got the most.
    pub most: u64,
}

/// One point of the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its beginning, counted from the beginning of the measured part.
    pub at_seconds: f64,
    /// Its length.
    pub seconds: f64,
    /// Operations answered with success in it.
    pub operations: u64,
    /// Operations that failed in it.
    pub failed: u64,
    /// Median of the response times, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the response times, in microseconds.
    pub p99_us: f64,
    /// The longest response time, in microseconds.
    pub max_us: f64,
}

/// One rate that a search tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Offered, in operations per second.
    pub rate: f64,
    /// Answered, in operations per second.
    pub answered: f64,
    /// The percentile of the objective, in microseconds; none past saturation.
    pub latency_us: Option<f64>,
    /// Whether the objective held.
    pub held: bool,
}

impl Run {
    /// Whether its numbers may be used.
    pub fn counts(&self) -> bool {
        !self.replaced && self.outcome == Outcome::Measured
    }

    /// Whether something outside of it happened to it, so that another attempt
    /// may go better. A rate that never settles is the target's own.
    pub fn was_disturbed(&self) -> bool {
        let is_foreign = |taint: &Taint| taint.kind != TaintKind::NotSteady;
        self.taints.iter().any(is_foreign)
    }

    /// Operations of all kinds, answered with success, per second.
    pub fn operations_per_second(&self) -> f64 {
        self.load.operations() as f64 / self.load.seconds.max(f64::MIN_POSITIVE)
    }

    /// Of the client process, in microseconds.
    pub fn client_cpu_us_per_operation(&self) -> f64 {
        self.client.cpu_seconds() * 1e6 / self.load.operations().max(1) as f64
    }

    /// How near the generator came to its own limit: how busy the threads were that
    /// asked servers; of embedded targets, the rate as a share of the null target's.
    pub fn generator_share(&self) -> Option<f64> {
        let threads = f64::from(self.load.generator_threads);
        let available = threads * self.load.seconds;
        match available > 0.0 {
            true => Some(self.client.cpu_seconds() / available),
            false => Some(self.operations_per_second() / self.ceiling.filter(|it| *it > 0.0)?),
        }
    }

    /// What the client with the fewest operations got, as a share of what the one
    /// with the most got; none of a single client.
    pub fn least_over_most(&self) -> Option<f64> {
        let fairness = self.load.fairness.filter(|it| it.most > 0)?;
        Some(fairness.least as f64 / fairness.most as f64)
    }

    /// Of all server processes, in microseconds.
    pub fn server_cpu_us_per_operation(&self) -> Option<f64> {
        let server = self.server.as_ref()?;
        Some(server.cpu_seconds() * 1e6 / self.load.operations().max(1) as f64)
    }

    /// Device flushes for each acknowledged put of the measured part.
    pub fn flushes_per_put(&self) -> Option<f64> {
        let puts = self.load.kinds.get(&Kind::Put)?.operations;
        (puts > 0).then_some(self.device.as_ref()?.flushes as f64 / puts as f64)
    }

    /// Bytes that reached the device for each byte that a user wrote.
    pub fn device_bytes_per_user_byte(&self) -> Option<f64> {
        let written = self.device_settled.as_ref()?.written_bytes;
        (self.user_bytes_written > 0).then_some(written as f64 / self.user_bytes_written as f64)
    }
}

impl LoadResult {
    /// Answered with success, of all kinds.
    pub fn operations(&self) -> u64 {
        self.kinds.values().map(|kind| kind.operations).sum()
    }

    /// Answered with an error, of all kinds.
    pub fn failed(&self) -> u64 {
        self.kinds.values().map(|kind| kind.failed).sum()
    }

    /// Response times of all kinds together, in nanoseconds.
    pub fn response(&self) -> Histogram {
        Histogram::merged(self.kinds.values().map(|kind| &kind.response))
    }

    /// Service times of all kinds together, in nanoseconds.
    pub fn service(&self) -> Histogram {
        Histogram::merged(self.kinds.values().map(|kind| &kind.service))
    }
}

impl Kind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Get => "get",
            Kind::Put => "put",
            Kind::Range => "range",
        }
    }
}
