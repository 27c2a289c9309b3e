//! Quantities of a run (throughput, latencies, costs), which are the columns of all tables.

use serde::Serialize;

use super::ReportError;
use crate::record::Run;
use crate::report::number::{bytes, grouped, time};
use crate::statistics::summary::{median, quantile};
use crate::verdict::measures::{peak_memory, percentile};

/// A quantity of a run.
#[derive(Serialize)]
pub struct Quantity {
    /// Name in commands and markers.
    pub key: &'static str,
    /// Heading of the column.
    pub head: &'static str,
    /// Short heading, for terminals.
    pub short: &'static str,
    /// Meaning, as a sentence.
    pub meaning: &'static str,
    /// The value of a run; `None` where the run has none.
    #[serde(skip)]
    pub of: fn(&Run) -> Option<f64>,
    /// Formats a value.
    #[serde(skip)]
    pub show: fn(f64) -> String,
    /// Name of the metric in verdicts; empty where verdicts do not judge it.
    pub metric: &'static str,
    /// The device counts it: on a device that other processes use, it is an upper bound.
    pub of_device: bool,
}

/// Throughput, the first column of every table.
pub const THROUGHPUT: &Quantity = &QUANTITIES[0];

/// All quantities, in the order of the columns.
pub const QUANTITIES: [Quantity; 17] = [
    quantity(
        ["throughput", "ops/s", "ops/s", "throughput"],
        "operations answered with success, per second",
        |run| Some(run.operations_per_second()),
        grouped,
    ),
    quantity(
        ["p50", "p50", "p50", "p50"],
        "median response time, from the intended start",
        |run| percentile(run, 50.0),
        time,
    ),
    quantity(
        ["p99", "p99", "p99", "p99"],
        "99 of 100 answers came within this",
        |run| percentile(run, 99.0),
        time,
    ),
    quantity(
        ["p99.9", "p99.9", "p99.9", "p99.9"],
        "999 of 1,000 answers came within this",
        |run| percentile(run, 99.9),
        time,
    ),
    quantity(
        ["fairness", "fairness", "fairness", ""],
        "Jain's index over the clients: 1 where all got as much, 1/n where one of n got everything",
        |run| Some(run.load.fairness?.jain),
        |index| format!("{index:.2}"),
    ),
    quantity(
        ["least-most", "least/most", "least/most", ""],
        "operations of the client with the fewest, over those of the one with the most",
        Run::least_over_most,
        |ratio| format!("{ratio:.2}"),
    ),
    quantity(
        ["generator", "generator", "generator", ""],
        "how near the load generator was to its own limit: the rate as a share of the null target's; of servers, how busy the threads were that asked them. No verdict above 50 %",
        |run| Some(run.generator_share()? * 100.0),
        |percent| format!("{percent:.0} %"),
    ),
    quantity(
        ["client-cpu", "client CPU/op", "CPU/op", ""],
        "processor time of the client's process for each operation; an embedded target works in there, too",
        // Zero means that the run was imported: a measured run used some time.
        |run| Some(run.client_cpu_us_per_operation()).filter(|it| *it > 0.0),
        time,
    ),
    quantity(
        ["server-cpu", "server CPU/op", "server/op", "server CPU"],
        "processor time of all server processes for each operation",
        Run::server_cpu_us_per_operation,
        time,
    ),
    Quantity {
        of_device: true,
        ..quantity(
            ["flushes", "flushes/put", "flush/put", "flushes per put"],
            "flushes of the device's cache for each acknowledged put",
            Run::flushes_per_put,
            |count| format!("{count:.3}"),
        )
    },
    Quantity {
        of_device: true,
        ..quantity(
            [
                "device-bytes",
                "device B/user B",
                "dev B/B",
                "device bytes per user byte",
            ],
            "bytes that reached the device for each byte of keys and values written",
            Run::device_bytes_per_user_byte,
            |ratio| format!("{ratio:.2}"),
        )
    },
    Quantity {
        of_device: true,
        ..quantity(
            [
                "device-bytes-read",
                "device B read/user B",
                "read B/B",
                "device bytes read per user byte",
            ],
            "bytes read from the device for each byte of keys and values that clients read or wrote",
            Run::device_bytes_read_per_user_byte,
            |ratio| format!("{ratio:.2}"),
        )
    },
    quantity(
        ["memory", "peak memory", "memory", "peak memory"],
        "the most memory that the servers ever had; of the client's process, where the target lives in it",
        peak_memory,
        bytes,
    ),
    quantity(
        ["disk", "on disk", "on disk", "on disk"],
        "bytes that the data occupied when the measured part had ended",
        Run::footprint,
        bytes,
    ),
    quantity(
        [
            "space",
            "disk B/live B",
            "disk/live",
            "disk bytes per live byte",
        ],
        "bytes on disk for each byte of existing keys and values, when the measured part had ended",
        |run| run.space.per_live_byte_at_end(),
        |ratio| format!("{ratio:.2}"),
    ),
    quantity(
        ["key-memory", "memory/key", "mem/key", "memory per key"],
        "anonymous memory for each key when the measured part had ended; of an embedded target, the memory of its process that was added since before it was opened",
        |run| run.space.memory_per_key(),
        bytes,
    ),
    quantity(
        [
            "key-memory-peak",
            "peak memory/key",
            "peak/key",
            "peak memory per key",
        ],
        "the most anonymous memory since the preload began, for each key that existed at the end",
        |run| run.space.memory_per_key_peak(),
        bytes,
    ),
];

/// A quantity: key, heading, short heading and metric; meaning; value of a run; format.
const fn quantity(
    [key, head, short, metric]: [&'static str; 4],
    meaning: &'static str,
    of: fn(&Run) -> Option<f64>,
    show: fn(f64) -> String,
) -> Quantity {
    Quantity {
        key,
        head,
        short,
        meaning,
        of,
        show,
        metric,
        of_device: false,
    }
}

/// The quantity with this key.
pub fn with_key(key: &str) -> Result<&'static Quantity, ReportError> {
    let known = QUANTITIES.iter().find(|it| it.key == key);
    known.ok_or_else(|| ReportError::NoColumn { key: key.into() })
}

/// Formats a value of a metric. A metric that is no quantity is a time.
pub fn shown(metric: &str, value: Option<f64>) -> String {
    let quantity = QUANTITIES.iter().find(|it| it.metric == metric);
    let show = quantity.map_or(time as fn(f64) -> String, |it| it.show);
    value.map_or("–".to_owned(), show)
}

/// The values of a quantity over the runs of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// Number of runs that have a value.
    pub runs: usize,
    /// Other processes used the device: the values are upper bounds.
    pub at_most: bool,
}

impl Quantity {
    /// The values over these runs; `None` where no run has one.
    pub fn over(&self, runs: &[&Run]) -> Option<Spread> {
        let values: Vec<f64> = runs.iter().filter_map(|run| (self.of)(run)).collect();
        let shared = |run: &&Run| run.device.as_ref().is_some_and(|device| device.shared);
        Some(Spread {
            median: median(&values)?,
            least: quantile(&values, 0.0)?,
            most: quantile(&values, 1.0)?,
            runs: values.len(),
            at_most: self.of_device && runs.iter().any(shared),
        })
    }

    /// Text of the median, or a dash.
    pub fn text(&self, spread: Option<&Spread>) -> String {
        match spread {
            None => "–".to_owned(),
            Some(spread) if spread.at_most => format!("≤ {}", (self.show)(spread.median)),
            Some(spread) => (self.show)(spread.median),
        }
    }

    /// Text of the range, such as `91 to 104 µs`; empty for a single run, or where least and
    /// greatest look the same.
    pub fn range(&self, spread: Option<&Spread>) -> String {
        match spread {
            Some(spread) if spread.runs > 1 => {
                let [least, most] = [spread.least, spread.most].map(self.show);
                if least == most {
                    return String::new();
                }
                let unit = most.split_once(' ').map(|(_, unit)| unit);
                let alike = least.split_once(' ').filter(|(_, it)| Some(*it) == unit);
                let least = alike.map_or(least.as_str(), |(number, _)| number);
                format!("{least} to {most}")
            }
            _ => String::new(),
        }
    }
}
