//! The line of JSON that the Go program prints.

use serde::Deserialize;

use super::Findings;
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
pub fn read(verb: &str, line: &str) -> Outcome<Findings> {
    Ok(match verb {
        "leases" => {
            let Leases {
                leases,
                lost,
                cuts,
                renewed,
            } = serde_json::from_str(line)?;
            vec![
                ("leases lost", format!("{lost} of {leases}")),
                ("connection cut", format!("{cuts} times")),
                ("renewals answered", renewed.to_string()),
            ]
        }
        "watches" => {
            let report: Watches = serde_json::from_str(line)?;
            let (taken, asked) = (report.taken, report.asked);
            vec![
                ("watches taken", format!("{taken} of {asked}")),
                ("time", format!("{:.1} s", report.seconds)),
                ("ended by", or_nothing(report.error)),
            ]
        }
        _ => {
            let report: Large = serde_json::from_str(line)?;
            let lead = match (report.term_before, report.term_after) {
                (before, after) if before == after => "kept".to_owned(),
                (before, after) => format!("term {before} became {after}"),
            };
            vec![
                ("answered after", format!("{:.2} s", report.seconds)),
                ("refused with", or_nothing(report.refused)),
                ("lead", lead),
                ("others before", others(&report.normal)),
                ("others during", others(&report.during)),
            ]
        }
    })
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
