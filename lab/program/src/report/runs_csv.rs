//! `runs.csv`: every run as a row, for spreadsheets.

use crate::record::{Outcome, Record, Run};
use crate::report::results::failure;
use crate::verdict::evidence::taints_of;

const COLUMNS: [&str; 51] = [
    "run",
    "cell",
    "workload",
    "clients",
    "connections",
    "value_bytes",
    "reads_per_write",
    "arm",
    "target",
    "product",
    "version",
    "binary_sha1",
    "pair",
    "attempt",
    "replaced",
    "outcome",
    "started_unix_ms",
    "seconds",
    "operations",
    "failed",
    "operations_per_second",
    "rate_offered",
    "saturated",
    "p50_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "p9999_us",
    "max_us",
    "mean_us",
    "service_p99_us",
    "fairness_jain",
    "client_operations_least",
    "client_operations_most",
    "generator_share",
    "client_cpu_us_per_operation",
    "server_cpu_us_per_operation",
    "device_shared",
    "device_flushes",
    "flushes_per_put",
    "device_written_bytes",
    "user_bytes_written",
    "device_bytes_per_user_byte",
    "peak_memory_bytes",
    "footprint_bytes",
    "steady",
    "disturbed_by",
    "keys_checked",
    "keys_missing",
    "keys_wrong",
    "durability",
];

/// Indices of the columns with measured numbers.
const NUMBERS: std::ops::Range<usize> = 18..45;

/// The text of the file. A run that failed or lost data has no numbers.
pub fn to_csv(record: &Record) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for run in &record.runs {
        let mut row = identity(run);
        row.extend(load(run));
        row.extend(costs(run));
        if run.outcome != Outcome::Measured {
            row[NUMBERS].fill(String::new());
        }
        assert_eq!(row.len(), COLUMNS.len(), "a row has every column");
        writer.write_record(row)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn identity(run: &Run) -> Vec<String> {
    let (cell, target) = (&run.cell, &run.target);
    let binary = target.binary.as_ref();
    vec![
        run.number.to_string(),
        cell.name.clone(),
        cell.workload.clone(),
        cell.clients.to_string(),
        cell.connections.to_string(),
        cell.value_bytes.to_string(),
        optional(cell.rw_ratio),
        run.arm.clone(),
        target.name.clone(),
        target.product.clone(),
        target.version.clone(),
        binary.map_or(String::new(), |binary| binary.sha1.clone()),
        run.pair.to_string(),
        run.attempt.to_string(),
        run.replaced.to_string(),
        failure(&run.outcome).unwrap_or_else(|| "measured".to_owned()),
        run.started_unix_ms.to_string(),
    ]
}

fn load(run: &Run) -> Vec<String> {
    let load = &run.load;
    let response = load.response();
    let time = |nanoseconds: f64| match load.saturated || response.count() == 0 {
        true => String::new(),
        false => format!("{:.3}", nanoseconds / 1e3),
    };
    let percentile = |percent: f64| time(response.percentile(percent) as f64);
    vec![
        format!("{:.3}", load.seconds),
        load.operations().to_string(),
        load.failed().to_string(),
        format!("{:.3}", run.operations_per_second()),
        optional(load.rate_offered),
        load.saturated.to_string(),
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        percentile(99.9),
        percentile(99.99),
        time(response.max() as f64),
        time(response.mean()),
        time(load.service().percentile(99.0) as f64),
    ]
}

fn costs(run: &Run) -> Vec<String> {
    let device = run.device.as_ref();
    let settled = run.device_settled.as_ref();
    let checked = &run.verification;
    let three = |value: Option<f64>| value.map_or(String::new(), |it| format!("{it:.3}"));
    let fairness = run.load.fairness;
    vec![
        three(fairness.map(|it| it.jain)),
        optional(fairness.map(|it| it.least)),
        optional(fairness.map(|it| it.most)),
        three(run.generator_share()),
        three(Some(run.client_cpu_us_per_operation())),
        three(run.server_cpu_us_per_operation()),
        device.map_or(String::new(), |device| device.shared.to_string()),
        device.map_or(String::new(), |device| device.flushes.to_string()),
        three(run.flushes_per_put()),
        settled.map_or(String::new(), |device| device.written_bytes.to_string()),
        run.user_bytes_written.to_string(),
        three(run.device_bytes_per_user_byte()),
        optional(crate::verdict::measures::peak_memory(run)),
        optional(run.footprint_bytes),
        run.steadiness.steady.to_string(),
        taints_of(run).join("; "),
        checked.keys_checked.to_string(),
        checked.keys_missing.to_string(),
        checked.keys_wrong.to_string(),
        super::results::durable(&[run]),
    ]
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
