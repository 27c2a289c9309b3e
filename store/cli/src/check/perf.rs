//! `inkstone check perf`: whether a cluster carries a load, by etcdctl's measure.

use std::io::Write;
use std::time::Duration;

use super::load::{CleaningWords, LoadModel, Plan, PutLoad, Results};
use crate::client::signals::EndSignals;
use crate::client::{ConnectionArguments, Endpoints, duration};
use crate::failure::{self, FAILED, Failure};

const KEY_BYTES: usize = 256;
const VALUE_BYTES: usize = 1024;
/// Share of the intended rate that passes.
const RATE_PASSED: f64 = 0.9;
const SLOWEST_SECONDS_MAX: f64 = 0.5;
const DEVIATION_SECONDS_MAX: f64 = 0.1;

/// Check whether the cluster carries a load: puts for a minute
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Loads, in puts per second and clients: s 150 and 50, m 1000 and 200, l 8000 and 500,
xl 15000 and 1000. The keys are deleted afterwards.
Exit code: 0 passed; 1 failed.

Examples:
  inkstone check perf
  inkstone check perf --load m --auto-compact --auto-defrag")]
pub(crate) struct PerfArguments {
    /// The size of the load
    #[arg(long, value_enum, default_value_t = LoadModel::Small, value_name = "s|m|l|xl")]
    load: LoadModel,
    /// Prefix of the keys; there must be none below it
    #[arg(long, value_name = "PREFIX", default_value = "/etcdctl-check-perf/")]
    prefix: String,
    /// How long to put
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    duration: Duration,
    #[command(flatten)]
    cleaning: CleaningWords,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Puts per second, and clients.
fn size_of(load: LoadModel) -> (f64, usize) {
    match load {
        LoadModel::Small => (150.0, 50),
        LoadModel::Medium => (1000.0, 200),
        LoadModel::Large => (8000.0, 500),
        LoadModel::ExtraLarge => (15_000.0, 1000),
    }
}

pub(crate) async fn run(arguments: PerfArguments) -> Result<(), Failure> {
    let (per_second, clients) = size_of(arguments.load);
    let endpoints = Endpoints::new(arguments.connection)?;
    let sizes = (KEY_BYTES, VALUE_BYTES);
    let load = PutLoad::begin(&endpoints, clients, &arguments.prefix, sizes).await?;
    let time = arguments.duration;
    let shown = duration::shown(time);
    failure::say(&format!("putting for {shown} with {clients} clients"));
    let mut signals = EndSignals::catch()?;
    let plan = Plan::Paced { per_second, time };
    let results = tokio::select! {
        results = load.run(&plan) => results,
        _ = signals.next_is_terminate() => {
            load.delete().await?;
            return Err(Failure::failed("interrupted; the keys are deleted", ""));
        }
    };
    let mut say = |line: String| Ok(writeln!(std::io::stdout(), "{line}")?);
    load.clean(&endpoints, &arguments.cleaning, &mut say)
        .await?;
    let (lines, passed) = verdict(&results, per_second);
    lines.into_iter().try_for_each(say)?;
    match passed {
        true => Ok(()),
        false => Err(Failure::Reported { exit: FAILED }),
    }
}

/// The lines to print, and whether the cluster has passed.
fn verdict(results: &Results, per_second: f64) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    if !results.errors.is_empty() {
        lines.push("FAIL: too many errors".to_owned());
        lines.extend(results.error_lines());
    }
    let (rate, slowest, deviation) = (results.rate(), results.slowest(), results.deviation());
    let writes = rate as u64 + 1;
    let judged = [
        match rate / per_second > RATE_PASSED {
            true => (true, format!("PASS: Throughput is {writes} writes/s")),
            false => (
                false,
                format!("FAIL: Throughput too low: {writes} writes/s"),
            ),
        },
        match slowest <= SLOWEST_SECONDS_MAX {
            true => (true, format!("PASS: Slowest request took {slowest:.6}s")),
            false => (
                false,
                format!("Slowest request took too long: {slowest:.6}s"),
            ),
        },
        match deviation <= DEVIATION_SECONDS_MAX {
            true => (true, format!("PASS: Stddev is {deviation:.6}s")),
            false => (false, format!("Stddev too high: {deviation:.6}s")),
        },
    ];
    let passed = results.errors.is_empty() && judged.iter().all(|(passed, _)| *passed);
    lines.extend(judged.into_iter().map(|(_, line)| line));
    lines.push(if passed { "PASS" } else { "FAIL" }.to_owned());
    (lines, passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_passes_by_rate_slowest_answer_and_deviation() {
        let results = |seconds: Vec<f64>, errors: Vec<String>| Results {
            seconds,
            errors,
            total_seconds: 1.0,
        };
        let (lines, passed) = verdict(&results(vec![0.01; 100], Vec::new()), 100.0);
        assert!(passed);
        assert_eq!(lines[0], "PASS: Throughput is 101 writes/s");
        assert_eq!(lines.last().unwrap(), "PASS");
        for (results, reason) in [
            (results(vec![0.01; 90], Vec::new()), "Throughput too low"),
            (
                results([vec![0.01; 99], vec![0.6]].concat(), Vec::new()),
                "took too long",
            ),
            (
                results([vec![0.1; 50], vec![0.4; 50]].concat(), Vec::new()),
                "Stddev too high",
            ),
            (
                results(vec![0.01; 100], vec!["x".to_owned()]),
                "ERROR(x) -> 1",
            ),
        ] {
            let (lines, passed) = verdict(&results, 100.0);
            assert!(!passed, "{lines:?}");
            assert!(lines.join("\n").contains(reason), "{lines:?}");
        }
    }
}
