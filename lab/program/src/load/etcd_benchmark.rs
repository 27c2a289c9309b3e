//! etcd's own benchmark program as the generator of a load, instead of the lab's clients.
//!
//! The program ends after a number of requests, not after a time: calls of growing size warm
//! the target up and show its rate, and the measured call has the requests that this rate
//! answers in the measured part. It prints percentiles only, so a run's histogram is a
//! staircase through them, and it has no intervals.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::live::WriteCounts;
use super::{Edges, Measured, Plan, Remote, STEADY_CHANGE_MAX, Stage};
use crate::record::{Histogram, Kind, KindResult, LoadResult, Steadiness};
use crate::targets::Failure;
use crate::workload::{Arrival, Distribution, KeyKind, Workload};

/// Each call of the warm-up has more requests than the one before by this factor.
const GROWTH: u64 = 4;

/// Runs the program at the servers through warm-up and measured part.
pub fn run(
    plan: &Plan,
    program: &Path,
    remote: &Remote,
    edges: &mut dyn Edges,
) -> Result<Measured, Failure> {
    let workload = &plan.workload;
    let (kind, operation) = operation(workload)?;
    let mut command = vec![
        format!("--endpoints={}", remote.urls.join(",")),
        "--precise".to_owned(),
        format!("--clients={}", plan.clients),
        format!("--conns={}", workload.clients.connections.min(plan.clients)),
    ];
    command.extend(remote.access.benchmark_flags());
    command.extend(operation);
    let call = |requests: u64| {
        let output = Command::new(program)
            .args(&command)
            .arg(format!("--total={requests}"))
            .output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).map_err(|what| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{}: {what}\n{text}{errors}", program.display())
        })
    };
    let warmup_seconds = workload.time.warmup.max().as_seconds();
    let begun = plan.now();
    let passed = || (plan.now() - begun) as f64 / 1e9;
    let mut requests = u64::from(plan.clients) * 10;
    let mut sent = requests;
    let mut last = call(requests)?;
    let mut rate_before = None;
    // The next call takes `GROWTH` times as long, and has to fit.
    while passed() + last.seconds * (GROWTH as f64) < warmup_seconds {
        edges.progress(Stage::Warmup, passed() / warmup_seconds, last.rate)?;
        requests *= GROWTH;
        sent += requests;
        rate_before = Some(last.rate);
        last = call(requests)?;
    }
    let steadiness = steadiness(rate_before, last.rate, passed());
    let requests = (last.rate * workload.time.measure.as_seconds()).ceil() as u64;
    edges.progress(Stage::Measure, 0.0, last.rate)?;
    edges.begins();
    let summary = call(requests.max(1))?;
    let written_bytes_each = match kind.writes() {
        true => user_bytes(workload),
        false => 0,
    };
    edges.wrote(WriteCounts {
        user_bytes: (sent + requests) * written_bytes_each,
        ..WriteCounts::default()
    });
    edges.ended();
    let result = KindResult {
        operations: requests,
        user_bytes: requests * user_bytes(workload),
        user_bytes_written: requests * written_bytes_each,
        response: summary.staircase(requests),
        ..KindResult::default()
    };
    let load = LoadResult {
        seconds: summary.seconds,
        kinds: BTreeMap::from([(kind, result)]),
        ..LoadResult::default()
    };
    Ok((load, Vec::new(), steadiness))
}

/// Judges the warm-up by the rates of its two last calls; one call alone shows no steady rate.
fn steadiness(rate_before: Option<f64>, last_rate: f64, warmup_seconds: f64) -> Steadiness {
    let change = rate_before.map(|before| last_rate / before - 1.0);
    Steadiness {
        steady: change.is_some_and(|change| change.abs() <= STEADY_CHANGE_MAX),
        warmup_seconds,
        last_change: change.unwrap_or(0.0),
    }
}

/// Refuses workloads that the program cannot send.
pub fn check(workload: &Workload) -> Result<(), String> {
    operation(workload).map(drop)
}

/// The program's verb and flags for a workload.
fn operation(workload: &Workload) -> Result<(Kind, Vec<String>), String> {
    let refused = |what: &str| Err(format!("clients.generator: etcd's benchmark {what}"));
    if workload.arrival != Arrival::Closed {
        return refused("has no rate: write arrival.mode = \"closed\"");
    }
    let mix = &workload.mix;
    if mix.put == 1.0 {
        let mut words = vec![
            "put".to_owned(),
            format!("--val-size={:.0}", workload.load.value.length.mean()),
            format!("--key-space-size={}", workload.load.keys),
        ];
        if workload.access.distribution == Distribution::Sequential {
            words.push("--sequential-keys".to_owned());
        }
        return Ok((Kind::Put, words));
    }
    let consistency = if mix.serializable { "s" } else { "l" };
    let consistency = format!("--consistency={consistency}");
    if mix.get == 1.0 && workload.load.key.kind == KeyKind::DbBench && workload.load.key.size <= 16
    {
        // The first of the preloaded keys, or one that is never written.
        let is_missing = workload.access.missing == 1.0;
        let key = format!("{:016}", if is_missing { workload.load.keys } else { 0 });
        return Ok((Kind::Get, vec!["range".into(), key, consistency]));
    }
    if mix.get == 1.0 {
        return refused(
            "takes the key of a read as text: write key = { kind = \"dbbench-%016d\", size = 0 }",
        );
    }
    if mix.range.share == 1.0 && mix.range.from_start && mix.range.limit_min == 0 {
        let limit = format!("--limit={}", mix.range.limit);
        let words = ["range", "", "--prefix", &limit, &consistency];
        return Ok((Kind::Range, words.map(str::to_owned).into()));
    }
    refused("sends one kind of operation, and ranges from the first key on: change the mix")
}

/// Bytes of key and value of one operation; of a range, those of its limit.
fn user_bytes(workload: &Workload) -> u64 {
    let key = workload.load.key.kind.bytes_min(workload.load.keys).max(8) as u64;
    let pairs = match workload.mix.range.share > 0.0 {
        true => workload.mix.range.limit.max(1),
        false => 1,
    };
    pairs * (key + workload.load.value.length.mean() as u64)
}

/// The program's summary of one call.
#[derive(Debug, PartialEq)]
struct Summary {
    seconds: f64,
    /// Requests per second.
    rate: f64,
    /// Percent of the requests, and the seconds in which they were answered; ascending, up to 100.
    steps: Vec<(f64, f64)>,
}

impl Summary {
    fn staircase(&self, requests: u64) -> Histogram {
        let mut histogram = Histogram::default();
        let mut below = 0;
        for (percent, seconds) in &self.steps {
            let until = (requests as f64 * percent / 100.0).ceil() as u64;
            histogram.record_many((seconds * 1e9) as u64, until.saturating_sub(below));
            below = until.max(below);
        }
        histogram
    }
}

fn parse(output: &str) -> Result<Summary, String> {
    if output.contains("Error distribution") {
        return Err("requests failed".into());
    }
    let number = |label: &str| {
        let mut lines = output.lines().map(str::trim_start);
        let line = lines.find_map(|line| line.strip_prefix(label));
        let word = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        word.ok_or_else(|| format!("it printed no number after `{label}`"))
    };
    let step = |line: &str| {
        let (percent, rest) = line.trim_start().split_once("% in ")?;
        let seconds = rest.split_whitespace().next()?;
        Some((percent.parse().ok()?, seconds.parse().ok()?))
    };
    let mut steps: Vec<(f64, f64)> = output.lines().filter_map(step).collect();
    steps.push((100.0, number("Slowest:")?));
    Ok(Summary {
        seconds: number("Total:")?,
        rate: number("Requests/sec:")?,
        steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse as workload;

    const OUTPUT: &str = "Summary:\n  Total:\t0.5 secs.\n  Slowest:\t0.05 secs.\n  \
        Average:\t0.0002 secs.\n  Requests/sec:\t6032.6\n\nLatency distribution:\n  \
        50% in 0.0001 secs.\n  99% in 0.0023 secs.\n  99.9% in 0.0100 secs.\n";

    #[test]
    fn a_summary_becomes_a_histogram_with_its_percentiles() {
        let summary = parse(OUTPUT).unwrap();
        assert_eq!((summary.seconds, summary.rate), (0.5, 6032.6));
        let histogram = summary.staircase(3016);
        assert_eq!(histogram.count(), 3016);
        let found = [50.0, 99.0, 99.9, 100.0].map(|percent| histogram.percentile(percent) as f64);
        for (found, printed) in found.into_iter().zip([1e5, 2.3e6, 1e7, 5e7]) {
            assert!((found / printed - 1.0).abs() < 1e-3, "{found} {printed}");
        }
    }

    #[test]
    fn a_rate_is_steady_if_the_two_last_calls_of_the_warm_up_agree() {
        assert!(steadiness(Some(1000.0), 1000.0 * (1.0 + STEADY_CHANGE_MAX) - 1.0, 5.0).steady);
        assert!(!steadiness(Some(1000.0), 1100.0, 5.0).steady);
        assert!(!steadiness(Some(1000.0), 900.0, 5.0).steady);
        assert!(!steadiness(None, 1000.0, 5.0).steady);
    }

    #[test]
    fn failed_requests_fail_the_measurement() {
        let output = format!("{OUTPUT}\nError distribution:\n  [5] timeout\n");
        assert!(parse(&output).unwrap_err().contains("failed"));
        assert!(parse("nothing").is_err());
    }

    #[test]
    fn workloads_that_the_program_cannot_send_are_refused_with_a_remedy() {
        let refused = |text: &str| {
            let workload = workload("test", &format!("name = \"a\"\n{text}")).unwrap();
            check(&workload).err().unwrap_or_default()
        };
        assert_eq!(refused(""), "");
        assert!(refused("[mix]\nput = 0.5\nget = 0.5\n").contains("one kind"));
        let get = "[mix]\nput = 0.0\nget = 1.0\n";
        assert!(refused(get).contains("dbbench"));
        let textual = "[load]\nkey = { kind = \"dbbench-%016d\", size = 0 }\n";
        assert_eq!(refused(&format!("{textual}{get}")), "");
        assert!(refused("[arrival]\nmode = \"open\"\nrate = 10.0\n").contains("closed"));
    }
}
