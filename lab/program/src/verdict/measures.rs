//! The values of a run that are compared.

use super::metric::{Better, Metric};
use crate::record::{ProcessCosts, Run};

/// A metric with its value in a run.
pub struct Measure {
    pub metric: Metric,
    /// The value of a run; `None` where the run has none.
    pub of: fn(&Run) -> Option<f64>,
}

/// All measures, the most important first. In an open loop the rate is given, so the latency
/// decides; in a closed loop the throughput does.
pub fn measures(open_loop: bool) -> Vec<Measure> {
    let throughput = Metric::new("throughput", "op/s", Better::MoreIsFaster);
    let p99 = latency("p99");
    let (throughput, p99) = if open_loop {
        (throughput, p99.deciding())
    } else {
        (throughput.deciding(), p99)
    };
    vec![
        measure(throughput, |run| Some(run.operations_per_second())),
        measure(latency("p50"), |run| percentile(run, 50.0)),
        measure(p99, |run| percentile(run, 99.0)),
        measure(latency("p99.9"), |run| percentile(run, 99.9)),
        measure(
            cost("server CPU", "µs/op"),
            Run::server_cpu_us_per_operation,
        ),
        measure(cost("CPU, all processes", "µs/op"), cpu_of_all),
        measure(cost("device bytes per user byte", ""), device_bytes),
        measure(cost("flushes per put", ""), flushes),
        measure(cost("peak memory", "bytes"), peak_memory),
        measure(cost("on disk", "bytes"), |run| {
            run.footprint_bytes.map(|bytes| bytes as f64)
        }),
    ]
}

fn measure(metric: Metric, of: fn(&Run) -> Option<f64>) -> Measure {
    Measure { metric, of }
}

fn latency(name: &str) -> Metric {
    Metric::new(name, "µs", Better::LessIsFaster)
}

fn cost(name: &str, unit: &str) -> Metric {
    Metric::new(name, unit, Better::LessIsThriftier)
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

fn flushes(run: &Run) -> Option<f64> {
    let shared = run.device.as_ref()?.shared;
    run.flushes_per_put().filter(|_| !shared)
}

/// Peak memory in bytes of the servers, or of the worker for an embedded target.
pub fn peak_memory(run: &Run) -> Option<f64> {
    let ProcessCosts {
        resident_bytes_peak,
        ..
    } = run.server.as_ref().unwrap_or(&run.client);
    (*resident_bytes_peak > 0).then_some(*resident_bytes_peak as f64)
}
