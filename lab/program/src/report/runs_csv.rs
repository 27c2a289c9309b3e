//! `runs.csv`: every run as a row, for spreadsheets.

use crate::record::{Outcome, Record, Run};
use crate::report::results::{durable, failure};
use crate::verdict::evidence::taints_of;
use crate::verdict::measures::peak_memory;

/// A column: its name, and its text for a run; `None` is empty.
type Column = (&'static str, fn(&Run) -> Option<String>);

/// Columns before the measured numbers.
const IDENTITY: [Column; 18] = [
    ("run", |run| text(run.number)),
    ("cell", |run| text(&run.cell.name)),
    ("workload", |run| text(&run.cell.workload)),
    ("clients", |run| text(run.cell.clients)),
    ("connections", |run| text(run.cell.connections)),
    ("value_bytes", |run| text(run.cell.value_bytes)),
    ("reads_per_write", |run| text(run.cell.rw_ratio?)),
    ("arm", |run| text(&run.arm)),
    ("target", |run| text(&run.target.name)),
    ("product", |run| text(&run.target.product)),
    ("version", |run| text(&run.target.version)),
    ("binary_sha1", |run| text(&run.target.binary.as_ref()?.sha1)),
    ("pair", |run| text(run.pair)),
    ("attempt", |run| text(run.attempt)),
    ("replaced", |run| text(run.replaced)),
    ("outcome", |run| failure(&run.outcome).or(text("measured"))),
    ("started_unix_ms", |run| text(run.started_unix_ms)),
    ("seconds", |run| decimals(run.load.seconds)),
];

/// Columns with measured numbers: a run that failed or lost data has none.
const NUMBERS: [Column; 34] = [
    ("operations", |run| text(run.load.operations())),
    ("failed", |run| text(run.load.failed())),
    ("operations_per_second", |run| {
        decimals(run.operations_per_second())
    }),
    ("rate_offered", |run| text(run.load.rate_offered?)),
    ("saturated", |run| text(run.load.saturated)),
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
    ("fairness_jain", |run| decimals(run.load.fairness?.jain)),
    ("client_operations_least", |run| {
        text(run.load.fairness?.least)
    }),
    ("client_operations_most", |run| {
        text(run.load.fairness?.most)
    }),
    ("generator_share", |run| decimals(run.generator_share()?)),
    ("client_cpu_us_per_operation", |run| {
        decimals(run.client_cpu_us_per_operation())
    }),
    ("server_cpu_us_per_operation", |run| {
        decimals(run.server_cpu_us_per_operation()?)
    }),
    ("device_shared", |run| text(run.device.as_ref()?.shared)),
    ("device_flushes", |run| text(run.device.as_ref()?.flushes)),
    ("flushes_per_put", |run| decimals(run.flushes_per_put()?)),
    ("device_written_bytes", |run| {
        text(run.device_settled.as_ref()?.written_bytes)
    }),
    ("user_bytes_written", |run| text(run.user_bytes_written)),
    ("device_bytes_per_user_byte", |run| {
        decimals(run.device_bytes_per_user_byte()?)
    }),
    ("device_read_bytes", |run| {
        text(run.device.as_ref()?.read_bytes)
    }),
    ("user_bytes", |run| text(run.load.user_bytes())),
    ("device_bytes_read_per_user_byte", |run| {
        decimals(run.device_bytes_read_per_user_byte()?)
    }),
    ("peak_memory_bytes", |run| text(peak_memory(run)?)),
    ("footprint_bytes", |run| text(run.footprint_bytes?)),
    ("disk_bytes_per_live_byte", |run| {
        decimals(run.space.per_live_byte_at_end()?)
    }),
    ("disk_bytes_per_live_byte_peak", |run| {
        decimals(run.space.per_live_byte_peak()?)
    }),
    ("anonymous_bytes_per_key", |run| {
        decimals(run.space.memory_per_key()?)
    }),
    ("anonymous_bytes_per_key_peak", |run| {
        decimals(run.space.memory_per_key_peak()?)
    }),
];

/// Columns behind the measured numbers.
const JUDGEMENTS: [Column; 6] = [
    ("steady", |run| text(run.steadiness.steady)),
    ("disturbed_by", |run| text(taints_of(run).join("; "))),
    ("keys_checked", |run| text(run.verification.keys_checked)),
    ("keys_missing", |run| text(run.verification.keys_missing)),
    ("keys_wrong", |run| text(run.verification.keys_wrong)),
    ("durability", |run| text(durable(&[run]))),
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
                true => of(run).unwrap_or_default(),
                false => String::new(),
            }
        }))?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn percentile(run: &Run, percent: f64) -> Option<String> {
    time(run, run.load.response().percentile(percent) as f64)
}

/// Microseconds; empty where the run was saturated or nothing was answered.
fn time(run: &Run, nanoseconds: f64) -> Option<String> {
    let has_times = !run.load.saturated && run.load.response().count() > 0;
    decimals(nanoseconds / 1e3).filter(|_| has_times)
}

fn decimals(value: f64) -> Option<String> {
    Some(format!("{value:.3}"))
}

fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}
