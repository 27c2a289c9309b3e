//! The line of JSON that the Go program prints.

use serde::Deserialize;

use crate::process::Outcome;

#[derive(Deserialize)]
struct Leases {
    leases: u64,
    lost: u64,
    cuts: u64,
    renewed: u64,
}

#[derive(Deserialize)]
struct Watches {
    asked: u64,
    taken: u64,
    seconds: f64,
    error: String,
}

#[derive(Deserialize)]
struct Large {
    refused: String,
    seconds: f64,
    term_before: u64,
    term_after: u64,
    normal: Latencies,
    during: Latencies,
}

#[derive(Deserialize)]
struct Latencies {
    count: u64,
    failed: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// The named results of a verb.
pub fn read(verb: &str, line: &str) -> Outcome<Vec<(&'static str, String)>> {
    match verb {
        "leases" => Ok(leases(&serde_json::from_str(line)?)),
        "watches" => Ok(watches(&serde_json::from_str(line)?)),
        _ => Ok(large(&serde_json::from_str(line)?)),
    }
}

fn leases(report: &Leases) -> Vec<(&'static str, String)> {
    vec![
        (
            "leases lost",
            format!("{} of {}", report.lost, report.leases),
        ),
        ("connection cut", format!("{} times", report.cuts)),
        ("renewals answered", report.renewed.to_string()),
    ]
}

fn watches(report: &Watches) -> Vec<(&'static str, String)> {
    vec![
        (
            "watches taken",
            format!("{} of {}", report.taken, report.asked),
        ),
        ("time", format!("{:.1} s", report.seconds)),
        ("ended by", or_nothing(&report.error)),
    ]
}

fn large(report: &Large) -> Vec<(&'static str, String)> {
    let lead = match report.term_before == report.term_after {
        true => "kept".to_owned(),
        false => format!("term {} became {}", report.term_before, report.term_after),
    };
    vec![
        ("answered after", format!("{:.2} s", report.seconds)),
        ("refused with", or_nothing(&report.refused)),
        ("lead", lead),
        ("others before", others(&report.normal)),
        ("others during", others(&report.during)),
    ]
}

fn others(latencies: &Latencies) -> String {
    format!(
        "p50 {:.2}, p99 {:.2}, max {:.1} ms; {} requests, {} failed",
        latencies.p50_ms, latencies.p99_ms, latencies.max_ms, latencies.count, latencies.failed
    )
}

fn or_nothing(text: &str) -> String {
    match text {
        "" => "-".to_owned(),
        text => text.to_owned(),
    }
}
