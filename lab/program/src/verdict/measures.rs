//! The values of a run that are compared.

use super::metric::{Better, Metric};
use crate::record::Run;

/// A metric with its value in a run.
pub struct Measure {
    pub metric: Metric,
    pub of: Value,
}

/// The value of a run; `None` where the run has none.
type Value = fn(&Run) -> Option<f64>;

/// All measures, the most important first. In an open loop the rate is given, so the latency
/// decides; in a closed loop the throughput does.
pub fn measures(open_loop: bool) -> Vec<Measure> {
    use Better::{LessIsFaster, LessIsThriftier, MoreIsFaster};
    let all: [(&str, Better, Value); 14] = [
        ("throughput", MoreIsFaster, |run| {
            Some(run.operations_per_second())
        }),
        ("p50", LessIsFaster, |run| percentile(run, 50.0)),
        ("p99", LessIsFaster, |run| percentile(run, 99.0)),
        ("p99.9", LessIsFaster, |run| percentile(run, 99.9)),
        (
            "server CPU",
            LessIsThriftier,
            Run::server_cpu_us_per_operation,
        ),
        ("CPU, all processes", LessIsThriftier, cpu_of_all),
        ("device bytes per user byte", LessIsThriftier, device_bytes),
        (
            "device bytes read per user byte",
            LessIsThriftier,
            device_bytes_read,
        ),
        ("flushes per put", LessIsThriftier, flushes),
        ("peak memory", LessIsThriftier, peak_memory),
        ("on disk", LessIsThriftier, Run::footprint),
        ("disk bytes per live byte", LessIsThriftier, |run| {
            run.space.per_live_byte_at_end()
        }),
        ("memory per key", LessIsThriftier, |run| {
            run.space.memory_per_key()
        }),
        ("peak memory per key", LessIsThriftier, |run| {
            run.space.memory_per_key_peak()
        }),
    ];
    let deciding = if open_loop { "p99" } else { "throughput" };
    let measures = all.into_iter().map(|(name, better, of)| Measure {
        metric: Metric {
            decides: name == deciding,
            ..Metric::new(name, better)
        },
        of,
    });
    measures.collect()
}

/// The response time in microseconds that `percent` of the answers did not exceed. `None`
/// with fewer than ten answers beyond it, and past saturation, where it grows with the
/// length of the run.
pub fn percentile(run: &Run, percent: f64) -> Option<f64> {
    if run.load.saturated {
        return None;
    }
    let response = run.load.response();
    let beyond = response.count() as f64 * (1.0 - percent / 100.0);
    (beyond >= 10.0).then(|| response.percentile(percent) as f64 / 1000.0)
}

fn cpu_of_all(run: &Run) -> Option<f64> {
    Some(run.client_cpu_us_per_operation() + run.server_cpu_us_per_operation().unwrap_or(0.0))
}

/// `None` on a shared device, which counts the bytes of all processes.
fn device_bytes(run: &Run) -> Option<f64> {
    let shared = run.device_settled.as_ref()?.shared;
    run.device_bytes_per_user_byte().filter(|_| !shared)
}

/// The same for bytes that were read.
fn device_bytes_read(run: &Run) -> Option<f64> {
    let shared = run.device.as_ref()?.shared;
    run.device_bytes_read_per_user_byte().filter(|_| !shared)
}

fn flushes(run: &Run) -> Option<f64> {
    let shared = run.device.as_ref()?.shared;
    run.flushes_per_put().filter(|_| !shared)
}

/// Peak memory in bytes of the servers, or of the worker for an embedded target.
pub fn peak_memory(run: &Run) -> Option<f64> {
    let peak = run
        .server
        .as_ref()
        .unwrap_or(&run.client)
        .resident_bytes_peak;
    (peak > 0).then_some(peak as f64)
}
