//! The line of JSON that the Go program prints.

use serde::Deserialize;

use trials::Report;

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
pub fn read(verb: &str, line: &str) -> Outcome<Report> {
    let mut findings = Report::default();
    match verb {
        "leases" => {
            let report: Leases = serde_json::from_str(line)?;
            let (lost, leases) = (report.lost, report.leases);
            findings.add("leases lost", format!("{lost} of {leases}"));
            findings.add("connection cut", format!("{} times", report.cuts));
            findings.add("renewals answered", report.renewed);
        }
        "watches" => {
            let report: Watches = serde_json::from_str(line)?;
            let (taken, asked) = (report.taken, report.asked);
            findings.add("watches taken", format!("{taken} of {asked}"));
            findings.add("time", format!("{:.1} s", report.seconds));
            findings.add("ended by", or_nothing(report.error));
        }
        _ => {
            let report: Large = serde_json::from_str(line)?;
            let lead = match (report.term_before, report.term_after) {
                (before, after) if before == after => "kept".to_owned(),
                (before, after) => format!("term {before} became {after}"),
            };
            findings.add("answered after", format!("{:.2} s", report.seconds));
            findings.add("refused with", or_nothing(report.refused));
            findings.add("lead", lead);
            findings.add("others before", others(&report.normal));
            findings.add("others during", others(&report.during));
        }
    }
    Ok(findings)
}

fn others(latencies: &Latencies) -> String {
    format!(
        "p50 {:.2}, p99 {:.2}, max {:.1} ms; {} requests, {} failed",
        latencies.p50_ms, latencies.p99_ms, latencies.max_ms, latencies.count, latencies.failed
    )
}

fn or_nothing(text: String) -> String {
    match text.is_empty() {
        true => "-".to_owned(),
        false => text,
    }
}
