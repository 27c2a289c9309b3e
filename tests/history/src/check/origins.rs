//! Every change has one cause, and every acknowledged write its change.
//!
//! The ledger is walked once. A revision that was acknowledged must be what was
//! asked for. An unacknowledged one is the end of a lease, or a write of
//! unknown outcome that did happen: after everything that was known when it was
//! called. Unknown deletions of one key are alike; since each may explain any
//! revision after the one it saw, taking any that is allowed is never wrong.

use std::collections::{BTreeMap, HashMap};

use super::{Case, answered, leases::Leases};
use crate::{Change, Entry, Operation, Request, Rule};

/// Effect of a write, by key: the value and the lease of a put, `None` for a deletion.
type Effect<'a> = Vec<(&'a str, Option<(&'a str, i64)>)>;

/// Writes of unknown outcome by their effect, with the revision known before each; each list
/// begins with the largest.
#[derive(Default)]
struct Unknown<'a>(HashMap<Effect<'a>, Vec<(i64, &'a Operation)>>);

pub(super) fn check(case: &mut Case<'_>) {
    let history = case.history;
    let mut acknowledged: BTreeMap<i64, Vec<&Operation>> = BTreeMap::new();
    for (operation, _) in answered(history) {
        if let Some(revision) = operation.revision_taken() {
            acknowledged.entry(revision).or_default().push(operation);
        }
    }
    let mut unknown = Unknown::of(case);
    let mut leases = Leases::of(case);
    for entry in case.ledger.entries() {
        let writers = acknowledged.remove(&entry.revision).unwrap_or_default();
        match writers[..] {
            [] => unacknowledged(case, entry, &mut unknown, &mut leases),
            [writer] if effect(&writer.request) == effect_of(entry) => {}
            [writer] => {
                let text = format!("acknowledged, but the ledger has {entry:?}");
                case.blame(Rule::Lost, text, &[writer]);
            }
            _ => {
                let text = format!("two writes were given revision {}", entry.revision);
                case.blame(Rule::Lost, text, &writers);
            }
        }
        leases.follow(case, entry);
    }
    for (revision, writers) in acknowledged {
        let text = format!("acknowledged, and there is no revision {revision}");
        case.blame(Rule::Lost, text, &writers);
    }
    leases.conclude(case);
}

fn unacknowledged<'a>(
    case: &mut Case<'a>,
    entry: &'a Entry,
    unknown: &mut Unknown<'a>,
    leases: &mut Leases<'a>,
) {
    if leases.ends(case, entry) || unknown.explains(case, entry) {
        return;
    }
    let text = format!("no write of known or unknown outcome, and no lease, explains {entry:?}");
    case.blame(Rule::Origin, text, &[]);
}

impl<'a> Unknown<'a> {
    fn of(case: &Case<'a>) -> Unknown<'a> {
        let mut unknown = Unknown::default();
        for operation in case.history.operations.iter().filter(|it| it.is_unknown()) {
            let before = case.completed.before(operation.called);
            let before = before.map_or(0, |known| known.revision);
            let alike = unknown.0.entry(effect(&operation.request)).or_default();
            alike.push((before, operation));
        }
        for alike in unknown.0.values_mut() {
            alike.sort_by_key(|(before, _)| std::cmp::Reverse(*before));
        }
        unknown
    }

    /// Takes the write that did this, if there is one.
    fn explains(&mut self, case: &Case<'a>, entry: &'a Entry) -> bool {
        let Some(alike) = self.0.get_mut(&effect_of(entry)) else {
            return false;
        };
        // The last is allowed if any is.
        let last = alike.pop_if(|(before, writer)| {
            *before < entry.revision && may(case, writer, entry.revision)
        });
        last.is_some()
    }
}

/// Whether the comparison of a write held before a revision.
fn may(case: &Case<'_>, writer: &Operation, revision: i64) -> bool {
    match &writer.request {
        Request::Swap { key, expected, .. } => {
            let before = case.ledger.at(key, revision - 1);
            before.map_or(0, |version| version.modified) == *expected
        }
        _ => true,
    }
}

/// Effect that a request asks for; none if it is no write.
fn effect(request: &Request) -> Effect<'_> {
    let (puts, deletes) = match request {
        Request::Put {
            key, value, lease, ..
        } => return vec![(key, Some((value, *lease)))],
        Request::Delete { key } => return vec![(key, None)],
        Request::Swap { puts, .. } => (puts, &[][..]),
        Request::Batch { puts, deletes } => (puts, &deletes[..]),
        _ => return Vec::new(),
    };
    let puts = puts.iter();
    let puts = puts.map(|(key, value)| (&key[..], Some((&value[..], 0))));
    let deletes = deletes.iter().map(|key| (&key[..], None));
    sorted(puts.chain(deletes))
}

/// Effect of an entry of the ledger.
fn effect_of(entry: &Entry) -> Effect<'_> {
    sorted(entry.changes.iter().map(|change| match change {
        Change::Put(version) => (&version.key[..], Some((&version.value[..], version.lease))),
        Change::Delete { key, .. } => (&key[..], None),
    }))
}

fn sorted<'a>(changes: impl Iterator<Item = (&'a str, Option<(&'a str, i64)>)>) -> Effect<'a> {
    let mut effect: Effect<'a> = changes.collect();
    effect.sort_unstable();
    effect
}
