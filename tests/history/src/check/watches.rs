//! Compares the deliveries of watches with the ledger.

use super::Case;
use crate::history::holds;
use crate::ledger::Ledger;
use crate::{Change, Delivery, Rule, Violation, Watch};

pub(super) fn check(case: &mut Case<'_>) {
    for watch in &case.history.watches {
        if let Err((delivery, text)) = judge(&case.ledger, watch) {
            let (client, member, first) = (watch.client, watch.member, watch.first);
            let (key, end) = (&watch.key, &watch.end);
            let what = format!(
                "client {client} at member {member} watches {key:?}..{end:?} from revision {first}: \
                 {delivery:?}"
            );
            case.violations.push(Violation {
                rule: Rule::Watch,
                text,
                evidence: vec![(watch.called, delivery.at, what)],
            });
        }
    }
}

fn judge<'a>(ledger: &Ledger<'_>, watch: &'a Watch) -> Result<(), (&'a Delivery, String)> {
    let mut next = watch.first;
    for delivery in &watch.deliveries {
        let revisions = |a: &Change, b: &Change| a.modified() == b.modified();
        for changes in delivery.changes.chunk_by(revisions) {
            let revision = changes[0].modified();
            whole_revision(ledger, watch, next, revision, changes).map_err(|it| (delivery, it))?;
            next = revision + 1;
        }
        if delivery.changes.is_empty() {
            none_between(ledger, watch, next, delivery.revision).map_err(|it| (delivery, it))?;
            next = next.max(delivery.revision + 1);
        }
    }
    Ok(())
}

/// Whether these are all changes of the next revision that has any in range.
fn whole_revision(
    ledger: &Ledger<'_>,
    watch: &Watch,
    next: i64,
    revision: i64,
    changes: &[Change],
) -> Result<(), String> {
    if revision < next {
        return Err(format!(
            "revision {revision} comes, when everything before {next} had come"
        ));
    }
    none_between(ledger, watch, next, revision - 1)?;
    let entry = ledger.entry(revision);
    let entry = entry.ok_or_else(|| format!("revision {revision} never was"))?;
    let mut expected: Vec<&Change> = entry.changes.iter().filter(|it| wants(watch, it)).collect();
    let mut found: Vec<&Change> = changes.iter().collect();
    expected.sort_unstable();
    found.sort_unstable();
    if found == expected {
        return Ok(());
    }
    Err(format!("revision {revision} is {expected:?}"))
}

/// Nothing in range happened from one revision to another.
fn none_between(ledger: &Ledger<'_>, watch: &Watch, from: i64, to: i64) -> Result<(), String> {
    for revision in from.max(ledger.base() + 1)..=to.min(ledger.newest()) {
        let entry = ledger.entry(revision).expect("no revision is missing");
        if let Some(change) = entry.changes.iter().find(|it| wants(watch, it)) {
            return Err(format!("{change:?} did not come"));
        }
    }
    Ok(())
}

fn wants(watch: &Watch, change: &Change) -> bool {
    holds(&watch.key, &watch.end, change.key())
}
