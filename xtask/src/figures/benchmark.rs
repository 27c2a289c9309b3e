//! Runs etcd's benchmark tool and reads its summary.

use std::process::Command;

use super::Step;
use crate::{
    etcd,
    process::{Outcome, capture},
};

/// The tool's summary of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub requests_per_second: f64,
    pub average_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Runs one step against the server at `endpoint`.
pub fn run(endpoint: &str, step: &Step) -> Outcome<Summary> {
    let output = capture(
        Command::new(etcd::binary("benchmark")?)
            .arg(format!("--endpoints={endpoint}"))
            .arg("--precise")
            .args(&step.arguments),
    )?;
    parse(&output).map_err(|error| format!("{}: {error}\n{output}", step.name).into())
}

fn parse(output: &str) -> Outcome<Summary> {
    if output.contains("Error distribution") {
        return Err("requests failed".into());
    }
    Ok(Summary {
        requests_per_second: number(output, "Requests/sec:", 1)?,
        average_ms: 1000.0 * number(output, "Average:", 1)?,
        p50_ms: 1000.0 * number(output, "50% in", 2)?,
        // Of fewer than a hundred requests the tool leaves it out.
        p99_ms: 1000.0 * number(output, "99% in", 2).or_else(|_| number(output, "Slowest:", 1))?,
    })
}

/// The word number `index` of the line that begins with `label`.
fn number(output: &str, label: &str, index: usize) -> Outcome<f64> {
    let line = output
        .lines()
        .map(str::trim_start)
        .find(|line| line.starts_with(label))
        .ok_or_else(|| format!("no line `{label}`"))?;
    let word = line.split_whitespace().nth(index).ok_or("no number")?;
    Ok(word.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Summary:\n  Total:\t0.01 secs.\n  Average:\t0.0002 secs.\n  \
        Requests/sec:\t6032.6\n\nLatency distribution:\n  50% in 0.0001 secs.\n  \
        99% in 0.0023 secs.\n  99.9% in 0.0100 secs.\n";

    #[test]
    fn a_summary_is_read() {
        let summary = parse(OUTPUT).unwrap();
        assert_eq!(summary.requests_per_second, 6032.6);
        assert_eq!((summary.p50_ms, summary.p99_ms), (0.1, 2.3));
    }

    #[test]
    fn failed_requests_fail_the_measurement() {
        let output = format!("{OUTPUT}\nError distribution:\n  [5] timeout\n");
        assert!(parse(&output).is_err());
        assert!(parse("nothing").is_err());
    }
}
