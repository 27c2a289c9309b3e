//! The results of a trial, for people.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use history::{History, Rule, Violation};

use crate::{machine::Machine, process::Outcome};

/// Most violations of one rule that are printed.
const SHOWN_MAX: usize = 5;

/// A table in Markdown; all columns but the first have figures.
pub fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let mut text = line(&heads) + "|---" + &"|---:".repeat(heads.len() - 1) + "|\n";
    text.extend(rows.into_iter().map(|row| line(&row)));
    text
}

/// Prints a page, and writes `<date>-<machine>-<name>.md` if a directory is given.
pub fn record(directory: Option<&Path>, machine: &Machine, name: &str, page: &str) -> Outcome {
    println!("\n{page}");
    if let Some(directory) = directory {
        fs::create_dir_all(directory)?;
        let (date, machine) = (&machine.date, machine.slug());
        let path = directory.join(format!("{date}-{machine}-{name}.md"));
        fs::write(&path, page)?;
        println!("written to {}", path.display());
    }
    Ok(())
}

/// The smallest time that this part of all does not exceed; zero if there is none.
pub fn quantile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Judges a history, and prints what it violates.
pub fn judge(history: &History) -> Vec<Violation> {
    let began = Instant::now();
    let violations = history::check(history);
    println!(
        "checker: {} operations, {} watches, {} revisions, {:.1} s: {} violations",
        history.operations.len(),
        history.watches.len(),
        history.ledger.len(),
        began.elapsed().as_secs_f64(),
        violations.len()
    );
    print_violations(&violations);
    violations
}

/// Prints the number of violations of each rule, and the first ones.
pub fn print_violations(violations: &[Violation]) {
    let mut by_rule: BTreeMap<Rule, Vec<&Violation>> = BTreeMap::new();
    for violation in violations {
        by_rule.entry(violation.rule).or_default().push(violation);
    }
    for (rule, all) in by_rule {
        println!("\n{rule:?}: {} violations", all.len());
        for violation in all.iter().take(SHOWN_MAX) {
            println!("  {violation}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let times: Vec<Duration> = (1..=10).map(Duration::from_secs).collect();
        assert_eq!(quantile(&times, 50), Duration::from_secs(5));
        assert_eq!(quantile(&times, 90), Duration::from_secs(9));
        assert_eq!(quantile(&times, 100), Duration::from_secs(10));
        assert_eq!(quantile(&times[..1], 50), Duration::from_secs(1));
        assert_eq!(quantile(&[], 50), Duration::ZERO);
    }
}
