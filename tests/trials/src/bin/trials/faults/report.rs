//! Operations, faults and their outcomes as tables in Markdown.

use std::{collections::BTreeMap, fmt::Write, sync::atomic::Ordering};

use history::{Rule, Violation};

use super::{kinds::Kind, recorder::Recorder, trial::Trial};

/// Operations by kind, and faults by kind.
pub fn tables(trial: &Trial, recorder: &Recorder) -> String {
    let mut text = String::from(
        "| operation | answered | outcome unknown | refused |\n|---|---:|---:|---:|\n",
    );
    for (kind, tally) in recorder.tallies() {
        let row = writeln!(
            text,
            "| {kind} | {} | {} | {} |",
            tally.done, tally.unknown, tally.refused
        );
        row.expect("a string takes everything");
    }
    text.push_str("\n| fault | times |\n|---|---:|\n");
    let done = trial.done.lock().expect("no holder panics");
    let missing = trial.missing.lock().expect("no holder panics");
    for kind in Kind::ALL {
        let missing = missing.0.iter().find(|(missing, _)| *missing == kind);
        let times = match missing {
            Some((_, why)) => format!("not tried: {why}"),
            None => done.get(&kind).copied().unwrap_or(0).to_string(),
        };
        let row = writeln!(text, "| {} | {times} |", kind.name());
        row.expect("a string takes everything");
    }
    changes(trial, &mut text);
    let readings = trial
        .members
        .iter()
        .map(|it| it.clock.readings().unwrap_or(0));
    let rest = write!(
        text,
        "\n{:.0} s, {} events watched, {} MiB between members, {} readings of clocks of their own, \
         {} times a member had to be restarted after its disk was full",
        recorder.elapsed().as_secs_f64(),
        recorder.events.load(Ordering::Relaxed),
        trial.links.carried_bytes.load(Ordering::Relaxed) >> 20,
        readings.sum::<u64>(),
        trial
            .ended_for_want_of_room
            .lock()
            .expect("no holder panics"),
    );
    rest.expect("a string takes everything");
    text
}

/// The cluster's answers to changes of its members, if there were any.
fn changes(trial: &Trial, text: &mut String) {
    let changes = trial.changes.lock().expect("no holder panics");
    if !changes.is_empty() {
        text.push_str("\n| change of the members | times |\n|---|---:|\n");
    }
    for (words, times) in changes.iter() {
        let row = writeln!(text, "| {words} | {times} |");
        row.expect("a string takes everything");
    }
}

/// The hashes that all members share.
pub fn hashes(hashes: &[(i64, u32)]) -> String {
    let all = hashes
        .iter()
        .map(|(revision, hash)| format!("{hash:08x} at {revision}"));
    let all: Vec<String> = all.collect();
    format!("HashKV is the same at all members: {}", all.join(", "))
}

/// Prints the number of violations of each rule, and the first ones.
pub fn violations(violations: &[Violation], shown_max: usize) {
    let mut by_rule: BTreeMap<Rule, Vec<&Violation>> = BTreeMap::new();
    for violation in violations {
        by_rule.entry(violation.rule).or_default().push(violation);
    }
    for (rule, all) in by_rule {
        println!("\n{rule:?}: {} violations", all.len());
        for violation in all.iter().take(shown_max) {
            println!("  {violation}");
        }
    }
}
