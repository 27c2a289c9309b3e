//! The results of a trial, for people.

use std::{collections::BTreeMap, time::Instant};

use history::{History, Rule, Violation};

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
