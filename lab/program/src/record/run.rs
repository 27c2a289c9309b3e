//! One run: one target under one workload, in one process and one directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    DeviceWork, Disturbance, DurabilityJudgement, Histogram, Outcome, ProcessCosts, Space,
    Steadiness, Taint, TaintKind, TargetIdentity, Verification,
};
use crate::workload::Workload;

/// Conditions and results of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub cell: Cell,
    /// The side that was measured: see [`crate::record::Planned::arm`].
    pub arm: String,
    /// Number of the repetition; runs of one pair have the same seed.
    pub pair: u32,
    /// Number of earlier runs of the same cell, arm and pair.
    pub attempt: u32,
    /// Index of the run in the record, from 0, in the order of time.
    pub number: u32,
    /// The run's pair was disturbed and repeated: this run no longer counts.
    pub replaced: bool,
    pub target: TargetIdentity,
    /// The workload as it was run: scaled, with one number of clients.
    pub workload: Workload,
    /// Seed of keys, values and arrival times.
    pub seed: u64,
    /// Start of the run, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The numbers below count only where this is [`Outcome::Measured`].
    pub outcome: Outcome,
    /// Measurements of the clients.
    pub load: LoadResult,
    /// Operations per second of the null target in this cell: the generator's own limit.
    /// `None` for servers.
    #[serde(default)]
    pub ceiling: Option<f64>,
    /// Whether the rate was steady before the measured part.
    pub steadiness: Steadiness,
    /// Costs of the worker process over the measured part, including an embedded target.
    pub client: ProcessCosts,
    /// Costs of all server processes together; `None` for an embedded target.
    pub server: Option<ProcessCosts>,
    /// Work of the device during the measured part.
    pub device: Option<DeviceWork>,
    /// Work of the device from the beginning of the warm-up to the end of a `sync` directly
    /// after the measured part: it includes writes that were still in the page cache. In records of earlier
    /// labs it begins with the measured part, though what the warm-up left in the page cache is in it.
    pub device_settled: Option<DeviceWork>,
    /// Bytes of keys and values that clients had acknowledged as written in warm-up and
    /// measured part; in records of earlier labs in the measured part.
    pub user_bytes_written: u64,
    /// Bytes that the data occupied on disk at the end of the measured part.
    pub footprint_bytes: Option<u64>,
    /// Space on disk and memory over time.
    #[serde(default)]
    pub space: Space,
    pub disturbance: Disturbance,
    /// Reasons why the run is doubtful.
    pub taints: Vec<Taint>,
    pub verification: Verification,
    pub durability: DurabilityJudgement,
}

/// One point of an experiment. A field that the experiment does not vary is
/// the same in all its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Name for reports; runs with the same name belong to the same cell.
    pub name: String,
    /// Name of the workload; reports have one table or curve for each.
    pub workload: String,
    /// Number of concurrent clients.
    pub clients: u32,
    /// Number of connections that the clients share; without meaning for embedded targets.
    pub connections: u32,
    /// Mean length of a value, in bytes.
    pub value_bytes: f64,
    /// Reads over writes, for heatmaps (etcd's rw-benchmark calls it ratio).
    pub rw_ratio: Option<f64>,
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Read of one key.
    Get,
    /// Write of one key.
    Put,
    /// Ordered read of several keys.
    Range,
    /// Read of one key and a write of the same key behind it.
    #[serde(rename = "read-modify-write")]
    ReadModifyWrite,
}

impl Kind {
    /// All kinds; the place of each is its number.
    pub const ALL: [Kind; 4] = [Kind::Get, Kind::Put, Kind::Range, Kind::ReadModifyWrite];

    /// Whether operations of this kind write a key.
    pub fn writes(self) -> bool {
        matches!(self, Kind::Put | Kind::ReadModifyWrite)
    }
}

/// Measurements of the clients in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Length of the measured part.
    pub seconds: f64,
    pub kinds: BTreeMap<Kind, KindResult>,
    /// Operations by interval, from the beginning of the warm-up on. Intervals of the warm-up
    /// have a negative `at_seconds`.
    pub series: Vec<Interval>,
    /// Offered load in operations per second; `None` in a closed loop.
    pub rate_offered: Option<f64>,
    /// Greatest number of operations that were due and had not begun; open loop only.
    pub backlog_max: u64,
    /// The target could not follow the offered rate. Its latency then grows with the length
    /// of the run and has no meaning.
    pub saturated: bool,
    /// Fairness among the clients; `None` for a single client.
    #[serde(default)]
    pub fairness: Option<Fairness>,
    /// Threads of the lab that sent requests to servers; 0 for embedded targets, where each
    /// client is a thread of its own.
    #[serde(default)]
    pub generator_threads: u32,
    /// Rates that a search tried, in the order of time.
    pub search: Vec<SearchStep>,
    /// The first few different errors, for reports.
    pub errors: Vec<String>,
}

/// One kind of operation in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindResult {
    /// Operations answered with success.
    pub operations: u64,
    /// Operations answered with an error, or not at all.
    pub failed: u64,
    /// Point reads that found no key.
    pub not_found: u64,
    /// Keys that ranges returned.
    pub keys_returned: u64,
    /// Bytes of keys and values, read or written.
    pub user_bytes: u64,
    /// Those of them that were written. Records of earlier labs have 0.
    #[serde(default)]
    pub user_bytes_written: u64,
    /// Times from the intended start to the answer, in nanoseconds. In a closed loop the
    /// intended start is the start.
    pub response: Histogram,
    /// Times from the start to the answer, in nanoseconds; `None` in a closed loop, where they
    /// are the response times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Histogram>,
}

/// Fairness among several clients in the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Jain's index: 1 where all clients completed equally many operations, 1/n where one of
    /// n clients completed all.
    pub jain: f64,
    /// Operations of the client with the fewest.
    pub least: u64,
    /// Operations of the client with the most.
    pub most: u64,
}

/// One point of the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Beginning of the interval, counted from the beginning of the measured part.
    pub at_seconds: f64,
    /// Length of the interval.
    pub seconds: f64,
    /// Operations answered with success.
    pub operations: u64,
    pub failed: u64,
    /// Median of the response times, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the response times, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the response times, in microseconds; 0 in records of earlier labs.
    #[serde(default)]
    pub p999_us: f64,
    /// The longest response time, in microseconds.
    pub max_us: f64,
}

/// One rate that a search tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Offered load, in operations per second.
    pub rate: f64,
    /// Answered operations per second.
    pub answered: f64,
    /// The objective's percentile of the response times, in microseconds; `None` past
    /// saturation.
    pub latency_us: Option<f64>,
    /// Whether the target met the objective at this rate.
    pub held: bool,
}

impl Run {
    /// Whether the run's numbers may be used: it was measured and not replaced.
    pub fn counts(&self) -> bool {
        !self.replaced && self.outcome == Outcome::Measured
    }

    /// Whether something outside of the target disturbed the run, so that another attempt may
    /// help. A rate that never becomes steady is a property of the target and does not count.
    pub fn was_disturbed(&self) -> bool {
        let is_foreign = |taint: &Taint| taint.kind != TaintKind::NotSteady;
        self.taints.iter().any(is_foreign)
    }

    /// Operations of all kinds per second, answered with success.
    pub fn operations_per_second(&self) -> f64 {
        self.load.operations() as f64 / self.load.seconds.max(f64::MIN_POSITIVE)
    }

    /// Processor time of the worker process for each operation, in microseconds.
    pub fn client_cpu_us_per_operation(&self) -> f64 {
        self.client.cpu_seconds() * 1e6 / self.load.operations().max(1) as f64
    }

    /// Load of the generator as a share of its own limit. For servers: processor time of the
    /// client threads over the time available to them. For embedded targets: the rate over the
    /// null target's.
    pub fn generator_share(&self) -> Option<f64> {
        let threads = f64::from(self.load.generator_threads);
        let available = threads * self.load.seconds;
        match available > 0.0 {
            true => Some(self.client.cpu_seconds() / available),
            false => Some(self.operations_per_second() / self.ceiling.filter(|it| *it > 0.0)?),
        }
    }

    /// Bytes that the data occupied on disk at the end of the measured part.
    pub fn footprint(&self) -> Option<f64> {
        self.footprint_bytes.map(|bytes| bytes as f64)
    }

    /// Operations of the client with the fewest over those of the client with the most;
    /// `None` for a single client.
    pub fn least_over_most(&self) -> Option<f64> {
        let fairness = self.load.fairness.filter(|it| it.most > 0)?;
        Some(fairness.least as f64 / fairness.most as f64)
    }

    /// Processor time of all server processes for each operation, in microseconds.
    pub fn server_cpu_us_per_operation(&self) -> Option<f64> {
        let server = self.server.as_ref()?;
        Some(server.cpu_seconds() * 1e6 / self.load.operations().max(1) as f64)
    }

    /// Device flushes for each acknowledged write of the measured part.
    pub fn flushes_per_put(&self) -> Option<f64> {
        let writes = self.load.writes();
        (writes > 0).then_some(self.device.as_ref()?.flushes as f64 / writes as f64)
    }

    /// Bytes that were read from the device in the measured part, for each byte of keys and
    /// values that clients read or wrote.
    pub fn device_bytes_read_per_user_byte(&self) -> Option<f64> {
        let read = self.device.as_ref()?.read_bytes;
        let user_bytes = self.load.user_bytes();
        (user_bytes > 0).then_some(read as f64 / user_bytes as f64)
    }

    /// Bytes that reached the device for each byte of keys and values that clients wrote.
    pub fn device_bytes_per_user_byte(&self) -> Option<f64> {
        let written = self.device_settled.as_ref()?.written_bytes;
        (self.user_bytes_written > 0).then_some(written as f64 / self.user_bytes_written as f64)
    }
}

impl LoadResult {
    /// Operations of all kinds that were answered with success.
    pub fn operations(&self) -> u64 {
        self.kinds.values().map(|kind| kind.operations).sum()
    }

    /// Bytes of keys and values of all kinds, read or written.
    pub fn user_bytes(&self) -> u64 {
        self.kinds.values().map(|kind| kind.user_bytes).sum()
    }

    /// Operations that wrote a key and were answered with success.
    pub fn writes(&self) -> u64 {
        let kinds = self.kinds.iter().filter(|(kind, _)| kind.writes());
        kinds.map(|(_, result)| result.operations).sum()
    }

    /// Operations of all kinds that failed.
    pub fn failed(&self) -> u64 {
        self.kinds.values().map(|kind| kind.failed).sum()
    }

    /// Response times of all kinds together, in nanoseconds.
    pub fn response(&self) -> Histogram {
        Histogram::merged(self.kinds.values().map(|kind| &kind.response))
    }

    /// Service times of all kinds together, in nanoseconds.
    pub fn service(&self) -> Histogram {
        Histogram::merged(self.kinds.values().map(KindResult::service))
    }
}

impl KindResult {
    /// The part of one thread of clients; in an open loop the service times differ.
    pub fn of_thread(is_open: bool) -> KindResult {
        KindResult {
            response: Histogram::growing(),
            service: is_open.then(Histogram::growing),
            ..KindResult::default()
        }
    }

    /// Times from the start to the answer.
    fn service(&self) -> &Histogram {
        self.service.as_ref().unwrap_or(&self.response)
    }

    /// Drops service times that equal the response times: records of earlier labs have both.
    pub fn simplify(&mut self) {
        let response = &self.response;
        self.service = self.service.take().filter(|times| times != response);
    }

    /// Gives every histogram fewer significant digits.
    pub fn round(&mut self, digits: u8) {
        self.response = self.response.rounded(digits);
        self.service = self.service.take().map(|times| times.rounded(digits));
    }
}
