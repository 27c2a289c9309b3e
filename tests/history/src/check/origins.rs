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

/// Writes of unknown outcome, by what they would do.
#[derive(Default)]
struct Unknown<'a> {
    /// By the first key and value that they put.
    puts: HashMap<(&'a str, &'a str), &'a Operation>,
    /// By key; each list by the revision known before, the largest first.
    deletions: HashMap<&'a str, Vec<(i64, &'a Operation)>>,
}

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
            [writer] if does(writer, entry) => {}
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
            match &operation.request {
                Request::Put { key, value, .. } => {
                    unknown.puts.insert((key, value), operation);
                }
                Request::Swap { puts, .. } => {
                    let first = puts.iter().min().map(|(key, value)| (&key[..], &value[..]));
                    unknown.puts.extend(first.map(|first| (first, operation)));
                }
                Request::Delete { key } => {
                    let before = case.completed.before(operation.called);
                    let before = before.map_or(0, |(revision, _)| revision);
                    let all = unknown.deletions.entry(key).or_default();
                    all.push((before, operation));
                }
                _ => {}
            }
        }
        for deletions in unknown.deletions.values_mut() {
            deletions.sort_by_key(|(before, _)| std::cmp::Reverse(*before));
        }
        unknown
    }

    /// Takes the write that did this, if there is one.
    fn explains(&mut self, case: &Case<'a>, entry: &'a Entry) -> bool {
        if let [Change::Delete { key, modified }] = &entry.changes[..] {
            let Some(all) = self.deletions.get_mut(&key[..]) else {
                return false;
            };
            // The last is allowed if any is.
            let allowed = all.last().is_some_and(|(before, _)| before < modified);
            return allowed && all.pop().is_some();
        }
        let Some(Change::Put(first)) = entry.changes.iter().min_by_key(|it| it.key()) else {
            return false;
        };
        let sought = (&first.key[..], &first.value[..]);
        let Some(writer) = self.puts.get(&sought).copied() else {
            return false;
        };
        let before = case.completed.before(writer.called);
        let in_time = before.is_none_or(|(before, _)| before < entry.revision);
        let done = in_time && does(writer, entry) && may(case, writer, entry.revision);
        if done {
            self.puts.remove(&sought);
        }
        done
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

/// Whether an entry is what a write asked for.
fn does(writer: &Operation, entry: &Entry) -> bool {
    match &writer.request {
        Request::Put {
            key, value, lease, ..
        } => puts(entry, &[(key, value)], *lease),
        Request::Swap { puts: asked, .. } => {
            let mut asked: Vec<(&str, &str)> =
                asked.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            asked.sort_unstable();
            puts(entry, &asked, 0)
        }
        Request::Delete { key } => {
            matches!(&entry.changes[..], [Change::Delete { key: gone, .. }] if gone == key)
        }
        _ => false,
    }
}

/// Whether an entry puts exactly this; `asked` is sorted.
fn puts(entry: &Entry, asked: &[(&str, &str)], lease: i64) -> bool {
    let mut done = Vec::with_capacity(entry.changes.len());
    for change in &entry.changes {
        match change {
            Change::Put(version) if version.lease == lease => {
                done.push((&version.key[..], &version.value[..]));
            }
            _ => return false,
        }
    }
    done.sort_unstable();
    done == asked
}
