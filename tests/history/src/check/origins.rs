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
    /// By the first key that they delete, if they put none; each list by the revision known
    /// before, the largest first.
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
            let first_put = match &operation.request {
                Request::Put { key, value, .. } => Some((&key[..], &value[..])),
                Request::Swap { puts, .. } | Request::Batch { puts, .. } => {
                    puts.iter().min().map(|(key, value)| (&key[..], &value[..]))
                }
                _ => None,
            };
            let first_deleted = match &operation.request {
                Request::Delete { key } => Some(key),
                Request::Batch { deletes, .. } => deletes.iter().min(),
                _ => None,
            };
            if let Some(first) = first_put {
                unknown.puts.insert(first, operation);
            } else if let Some(key) = first_deleted {
                let before = case.completed.before(operation.called);
                let before = before.map_or(0, |(revision, _)| revision);
                let all = unknown.deletions.entry(key).or_default();
                all.push((before, operation));
            }
        }
        for deletions in unknown.deletions.values_mut() {
            deletions.sort_by_key(|(before, _)| std::cmp::Reverse(*before));
        }
        unknown
    }

    /// Takes the write that did this, if there is one.
    fn explains(&mut self, case: &Case<'a>, entry: &'a Entry) -> bool {
        let is_put = |change: &&Change| matches!(change, Change::Put(_));
        let puts = entry.changes.iter().filter(is_put);
        let Some(Change::Put(first)) = puts.min_by_key(|it| it.key()) else {
            let first = entry.changes.iter().map(Change::key).min();
            let all = first.and_then(|first| self.deletions.get_mut(first));
            let Some(all) = all else { return false };
            // The last that fits is allowed if any is.
            let fits = all.iter().rposition(|(_, writer)| does(writer, entry));
            let fits = fits.filter(|&at| all[at].0 < entry.revision);
            return fits.map(|at| all.remove(at)).is_some();
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
        } => changes(entry, &[(key.clone(), value.clone())], &[], *lease),
        Request::Swap { puts, .. } => changes(entry, puts, &[], 0),
        Request::Batch { puts, deletes } => changes(entry, puts, deletes, 0),
        Request::Delete { key } => changes(entry, &[], std::slice::from_ref(key), 0),
        _ => false,
    }
}

/// Whether an entry puts and deletes exactly this.
fn changes(entry: &Entry, puts: &[(String, String)], deletes: &[String], lease: i64) -> bool {
    let mut asked: Vec<(&str, Option<&str>)> = Vec::with_capacity(entry.changes.len());
    asked.extend(puts.iter().map(|(key, value)| (&key[..], Some(&value[..]))));
    asked.extend(deletes.iter().map(|key| (&key[..], None)));
    asked.sort_unstable();
    let mut done = Vec::with_capacity(entry.changes.len());
    for change in &entry.changes {
        match change {
            Change::Put(version) if version.lease != lease => return false,
            Change::Put(version) => done.push((&version.key[..], Some(&version.value[..]))),
            Change::Delete { key, .. } => done.push((&key[..], None)),
        }
    }
    done.sort_unstable();
    done == asked
}
