//! All rules over one history.
//!
//! ```text
//!   ledger ─► model of every revision ─┬─► contents   each answer at its revision
//!                                      ├─► origins    each change has one cause
//!   answers, deliveries ─► completed ──┼─► order      each answer against real time
//!                                      ├─► watches
//!                                      └─► lives      serializable reads
//! ```
//!
//! Everything is a sort, a search in something sorted, or one walk: O(n log n).

mod completed;
mod contents;
mod leases;
mod lives;
mod order;
mod origins;
mod watches;

use crate::{Answer, History, Moment, Operation, Rule, Version, Violation, ledger::Ledger};
use completed::{Completed, Known, Witness};

/// A history with the structures that the rules use.
struct Case<'a> {
    history: &'a History,
    ledger: Ledger<'a>,
    completed: Completed,
    violations: Vec<Violation>,
}

/// Every violation, sorted by rule and time. None: the history can be true.
pub fn check(history: &History) -> Vec<Violation> {
    let (ledger, violations) = Ledger::new(&history.base, &history.ledger);
    let mut case = Case {
        history,
        ledger,
        completed: Completed::of(history),
        violations,
    };
    order::check(&mut case);
    contents::check(&mut case);
    origins::check(&mut case);
    lives::check(&mut case);
    watches::check(&mut case);
    let mut violations = case.violations;
    violations.sort_by_key(|violation| {
        let began = violation.evidence.iter().map(|(called, ..)| *called).min();
        (violation.rule, began)
    });
    violations
}

impl Case<'_> {
    fn blame(&mut self, rule: Rule, text: String, operations: &[&Operation]) {
        self.blame_known(rule, text, operations, None);
    }

    /// Reports a violation that also shows how a revision was known.
    fn blame_known(
        &mut self,
        rule: Rule,
        text: String,
        operations: &[&Operation],
        known: Option<Known>,
    ) {
        let mut evidence: Vec<_> = operations.iter().map(|it| evidence(it)).collect();
        evidence.extend(known.map(|known| match known.witness {
            Witness::Operation(index) => self::evidence(&self.history.operations[index]),
            Witness::Watch(index) => {
                let client = self.history.watches[index].client;
                let what = format!("client {client} watched revision {}", known.revision);
                (known.at, known.at, what)
            }
        }));
        self.violations.push(Violation {
            rule,
            text,
            evidence,
        });
    }
}

fn evidence(operation: &Operation) -> (Moment, Moment, String) {
    let (client, member) = (operation.client, operation.member);
    let (request, outcome) = (&operation.request, &operation.outcome);
    let what = format!("client {client} at member {member}: {request:?} -> {outcome:?}");
    (operation.called, operation.returned, what)
}

fn same(found: &[Version], expected: &[&Version]) -> bool {
    found.iter().eq(expected.iter().copied())
}

/// All operations with their answers.
fn answered(history: &History) -> impl Iterator<Item = (&Operation, &Answer)> {
    let operations = history.operations.iter();
    operations.filter_map(|it| it.answer().map(|answer| (it, answer)))
}
