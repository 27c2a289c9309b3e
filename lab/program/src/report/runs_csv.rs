//! `runs.csv`: every run as a row, for spreadsheets.

use crate::record::{Outcome, Record, Run};
use crate::report::results::failure;
use crate::verdict::evidence::taints_of;
use crate::verdict::measures::peak_memory;

/// A column: its name, and its text for a run.
type Column = (&'static str, fn(&Run) -> String);

/// Columns before the measured numbers.
const IDENTITY: [Column; 18] = [
    ("run", |run| run.number.to_string()),
    ("cell", |run| run.cell.name.clone()),
    ("workload", |run| run.cell.workload.clone()),
    ("clients", |run| run.cell.clients.to_string()),
    ("connections", |run| run.cell.connections.to_string()),
    ("value_bytes", |run| run.cell.value_bytes.to_string()),
    ("reads_per_write", |run| optional(run.cell.rw_ratio)),
    ("arm", |run| run.arm.clone()),
    ("target", |run| run.target.name.clone()),
    ("product", |run| run.target.product.clone()),
    ("version", |run| run.target.version.clone()),
    ("binary_sha1", |run| {
        optional(run.target.binary.as_ref().map(|it| &it.sha1))
    }),
    ("pair", |run| run.pair.to_string()),
    ("attempt", |run| run.attempt.to_string()),
    ("replaced", |run| run.replaced.to_string()),
    ("outcome", |run| {
        failure(&run.outcome).unwrap_or_else(|| "measured".to_owned())
    }),
    ("started_unix_ms", |run| run.started_unix_ms.to_string()),
    ("seconds", |run| format!("{:.3}", run.load.seconds)),
];

/// Columns with measured numbers: a run that failed or lost data has none.
const NUMBERS: [Column; 27] = [
    ("operations", |run| run.load.operations().to_string()),
    ("failed", |run| run.load.failed().to_string()),
    ("operations_per_second", |run| {
        decimals(Some(run.operations_per_second()))
    }),
    ("rate_offered", |run| optional(run.load.rate_offered)),
    ("saturated", |run| run.load.saturated.to_string()),
    ("p50_us", |run| percentile(run, 50.0)),
    ("p90_us", |run| percentile(run, 90.0)),
    ("p99_us", |run| percentile(run, 99.0)),
    ("p999_us", |run| percentile(run, 99.9)),
    ("p9999_us", |run| percentile(run, 99.99)),
    ("max_us", |run| time(run, run.load.response().max() as f64)),
    ("mean_us", |run| time(run, run.load.response().mean())),
    ("service_p99_us", |run| {
        time(run, run.load.service().percentile(99.0) as f64)
    }),
    ("fairness_jain", |run| {
        decimals(run.load.fairness.map(|it| it.jain))
    }),
    ("client_operations_least", |run| {
        optional(run.load.fairness.map(|it| it.least))
    }),
    ("client_operations_most", |run| {
        optional(run.load.fairness.map(|it| it.most))
    }),
    ("generator_share", |run| decimals(run.generator_share())),
    ("client_cpu_us_per_operation", |run| {
        decimals(Some(run.client_cpu_us_per_operation()))
    }),
    ("server_cpu_us_per_operation", |run| {
        decimals(run.server_cpu_us_per_operation())
    }),
    ("device_shared", |run| {
        optional(run.device.as_ref().map(|it| it.shared))
    }),
    ("device_flushes", |run| {
        optional(run.device.as_ref().map(|it| it.flushes))
    }),
    ("flushes_per_put", |run| decimals(run.flushes_per_put())),
    ("device_written_bytes", |run| {
        optional(run.device_settled.as_ref().map(|it| it.written_bytes))
    }),
    ("user_bytes_written", |run| {
        run.user_bytes_written.to_string()
    }),
    ("device_bytes_per_user_byte", |run| {
        decimals(run.device_bytes_per_user_byte())
    }),
    ("peak_memory_bytes", |run| optional(peak_memory(run))),
    ("footprint_bytes", |run| optional(run.footprint_bytes)),
];

/// Columns behind the measured numbers.
const JUDGEMENTS: [Column; 6] = [
    ("steady", |run| run.steadiness.steady.to_string()),
    ("disturbed_by", |run| taints_of(run).join("; ")),
    ("keys_checked", |run| {
        run.verification.keys_checked.to_string()
    }),
    ("keys_missing", |run| {
        run.verification.keys_missing.to_string()
    }),
    ("keys_wrong", |run| run.verification.keys_wrong.to_string()),
    ("durability", |run| super::results::durable(&[run])),
];

/// The text of the file.
pub fn to_csv(record: &Record) -> Result<String, csv::Error> {
    let columns = || IDENTITY.iter().chain(&NUMBERS).chain(&JUDGEMENTS);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns().map(|(name, _)| name))?;
    let numbers = IDENTITY.len()..IDENTITY.len() + NUMBERS.len();
    for run in &record.runs {
        let is_measured = run.outcome == Outcome::Measured;
        writer.write_record(columns().enumerate().map(|(at, (_, of))| {
            match is_measured || !numbers.contains(&at) {
                true => of(run),
                false => String::new(),
            }
        }))?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn percentile(run: &Run, percent: f64) -> String {
    time(run, run.load.response().percentile(percent) as f64)
}

/// Microseconds; empty where the run was saturated or nothing was answered.
fn time(run: &Run, nanoseconds: f64) -> String {
    match run.load.saturated || run.load.response().count() == 0 {
        true => String::new(),
        false => format!("{:.3}", nanoseconds / 1e3),
    }
}

fn decimals(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.3}"))
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
