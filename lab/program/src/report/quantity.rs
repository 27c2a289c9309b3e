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
pub const QUANTITIES: [Quantity; 13] = [
    Quantity {
        key: "throughput",
        head: "ops/s",
        short: "ops/s",
        meaning: "operations answered with success, per second",
        of: |run| Some(run.operations_per_second()),
        show: grouped,
        metric: "throughput",
        of_device: false,
    },
    Quantity {
        key: "p50",
        head: "p50",
        short: "p50",
        meaning: "median response time, from the intended start",
        of: |run| percentile(run, 50.0),
        show: time,
        metric: "p50",
        of_device: false,
    },
    Quantity {
        key: "p99",
        head: "p99",
        short: "p99",
        meaning: "99 of 100 answers came within this",
        of: |run| percentile(run, 99.0),
        show: time,
        metric: "p99",
        of_device: false,
    },
    Quantity {
        key: "p99.9",
        head: "p99.9",
        short: "p99.9",
        meaning: "999 of 1,000 answers came within this",
        of: |run| percentile(run, 99.9),
        show: time,
        metric: "p99.9",
        of_device: false,
    },
    Quantity {
        key: "fairness",
        head: "fairness",
        short: "fairness",
        meaning: "Jain's index over the clients: 1 where all got as much, 1/n where one of n got everything",
        of: |run| Some(run.load.fairness?.jain),
        show: |index| format!("{index:.2}"),
        metric: "",
        of_device: false,
    },
    Quantity {
        key: "least-most",
        head: "least/most",
        short: "least/most",
        meaning: "operations of the client with the fewest, over those of the one with the most",
        of: Run::least_over_most,
        show: |ratio| format!("{ratio:.2}"),
        metric: "",
        of_device: false,
    },
    Quantity {
        key: "generator",
        head: "generator",
        short: "generator",
        meaning: "how near the load generator was to its own limit: the rate as a share of the null target's; of servers, how busy the threads were that asked them. No verdict above 50 %",
        of: |run| Some(run.generator_share()? * 100.0),
        show: |percent| format!("{percent:.0} %"),
        metric: "",
        of_device: false,
    },
    Quantity {
        key: "client-cpu",
        head: "client CPU/op",
        short: "CPU/op",
        meaning: "processor time of the client's process for each operation; an embedded target works in there, too",
        // Zero means that the run was imported: a measured run used some time.
        of: |run| Some(run.client_cpu_us_per_operation()).filter(|it| *it > 0.0),
        show: time,
        metric: "",
        of_device: false,
    },
    Quantity {
        key: "server-cpu",
        head: "server CPU/op",
        short: "server/op",
        meaning: "processor time of all server processes for each operation",
        of: Run::server_cpu_us_per_operation,
        show: time,
        metric: "server CPU",
        of_device: false,
    },
    Quantity {
        key: "flushes",
        head: "flushes/put",
        short: "flush/put",
        meaning: "flushes of the device's cache for each acknowledged put",
        of: Run::flushes_per_put,
        show: |count| format!("{count:.3}"),
        metric: "flushes per put",
        of_device: true,
    },
    Quantity {
        key: "device-bytes",
        head: "device B/user B",
        short: "dev B/B",
        meaning: "bytes that reached the device for each byte of keys and values written",
        of: Run::device_bytes_per_user_byte,
        show: |ratio| format!("{ratio:.2}"),
        metric: "device bytes per user byte",
        of_device: true,
    },
    Quantity {
        key: "memory",
        head: "peak memory",
        short: "memory",
        meaning: "the most memory that the servers ever had; of the client's process, where the target lives in it",
        of: peak_memory,
        show: bytes,
        metric: "peak memory",
        of_device: false,
    },
    Quantity {
        key: "disk",
        head: "on disk",
        short: "on disk",
        meaning: "bytes that the data occupied when the measured part had ended",
        of: Run::footprint,
        show: bytes,
        metric: "on disk",
        of_device: false,
    },
];

/// The quantity with this key.
pub fn quantity(key: &str) -> Result<&'static Quantity, ReportError> {
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
