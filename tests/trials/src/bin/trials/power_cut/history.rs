//! The writes that must be present after a cut, and those that may be.
//!
//! ```text
//!   revision     2 ... floor │ floor+1 ... newest │ newest+1 ... found
//!                 compacted  │ verified before:   │ acknowledged: that very write
//!                            │ as it was          │ else: one that was under way,
//!                            │                    │       whole, and only once
//! ```
//!
//! A write that was sent before the cut and acknowledged after it, by a server without its disk,
//! counts as in progress; `freeze.rs` has the reason.
//!
//! The revisions found must be all of them, without a gap, and the keys must be
//! the result of the history. Nothing else has to be compared: a lost, torn,
//! repeated or moved write makes one of the two differ.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use etcd_api::EncodedKeyValue;

use super::{
    load::{Acknowledged, PREFIX, Seen, prefix_of},
    store::{Changes, Found},
};
use crate::crash::model::{Operation, value};

/// Most messages about one kind of fault.
const STORIES_MAX: usize = 20;

/// A present key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Living {
    counter: u64,
    created: i64,
    modified: i64,
    version: i64,
}

/// Everything verified so far.
#[derive(Debug)]
pub struct History {
    /// Revisions up to here may be compacted; an empty store is at 1.
    floor: i64,
    newest: i64,
    /// From `floor + 1` to `newest`, without a gap.
    revisions: BTreeMap<i64, Operation>,
    keys: BTreeMap<Bytes, Living>,
}

/// Results of one cut.
#[derive(Debug, Default)]
pub struct Verdict {
    pub acknowledged: u64,
    pub lost: u64,
    /// Writes acknowledged after the cut.
    pub overtaken: u64,
    /// Unacknowledged writes that are present.
    pub survived: u64,
    /// Unacknowledged writes that are absent.
    pub absent: u64,
    /// Errors; empty if the cut was survived.
    pub faults: Vec<String>,
}

impl History {
    /// An empty store.
    pub fn new() -> History {
        History {
            floor: 1,
            newest: 1,
            revisions: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Revisions up to this one may be compacted.
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// The last verified revision.
    pub fn newest(&self) -> i64 {
        self.newest
    }

    /// Records that a compaction up to `revision` was requested and may have happened.
    pub fn may_be_compacted(&mut self, revision: i64) {
        assert!(
            revision <= self.newest,
            "only verified revisions are compacted"
        );
        self.floor = self.floor.max(revision);
        self.revisions = self.revisions.split_off(&(self.floor + 1));
    }

    /// The keys of one client.
    pub fn keys_of(&self, client: u32) -> BTreeSet<Bytes> {
        let prefix = prefix_of(client);
        let keys = self.keys.keys();
        keys.filter(|key| key.starts_with(prefix.as_bytes()))
            .cloned()
            .collect()
    }

    /// Compares the state of a restarted server with the expected one, and
    /// takes it over.
    pub fn verify(&mut self, seen: &[Seen], found: &Found) -> Verdict {
        let mut verdict = Verdict::default();
        let acknowledged = by_revision(seen, &mut verdict);
        self.find_lost(&acknowledged, found, &mut verdict);
        let mut under_way: Vec<&Operation> = seen.iter().flat_map(Seen::uncertain).collect();
        for revision in self.floor + 1..=found.revision {
            let changes = found.history.get(&revision);
            if let Some(story) = self.judge(
                revision,
                changes,
                acknowledged.get(&revision),
                &mut under_way,
            ) {
                verdict.tell(story);
            }
        }
        verdict.absent = under_way.len() as u64;
        let answered = (found.revision - self.newest) - acknowledged.len() as i64;
        verdict.survived = answered.max(0) as u64;
        self.newest = found.revision;
        if verdict.faults.is_empty() {
            self.compare_keys(&found.keys, &mut verdict);
        }
        verdict
    }

    /// Finds acknowledged writes that are missing or different at their revision.
    fn find_lost(
        &self,
        acknowledged: &BTreeMap<i64, &Acknowledged>,
        found: &Found,
        verdict: &mut Verdict,
    ) {
        for (revision, write) in acknowledged {
            let changes = found.history.get(revision);
            if changes.is_none_or(|changes| !is(changes, &write.operation)) {
                verdict.lost += 1;
                verdict.tell(format!(
                    "LOST {}: client {}, revision {revision}, acknowledged {:.1} ms after the \
                     load began (sent: {:?}, answered: {:?}); the store is at {} and shows \
                     there {}",
                    words(&write.operation),
                    write.client,
                    write.at.as_secs_f64() * 1e3,
                    write.sent,
                    write.answered,
                    found.revision,
                    changes.map_or("nothing".to_owned(), shown),
                ));
            }
        }
    }

    /// Checks one revision and returns its error; counts a write in progress that is present.
    fn judge(
        &mut self,
        revision: i64,
        changes: Option<&Changes>,
        acknowledged: Option<&&Acknowledged>,
        under_way: &mut Vec<&Operation>,
    ) -> Option<String> {
        let Some(changes) = changes else {
            return Some(format!("GAP: the watch shows nothing at {revision}"));
        };
        if let Some(known) = self.revisions.get(&revision) {
            return (!is(changes, known)).then(|| {
                let (was, now) = (words(known), shown(changes));
                format!("CHANGED: revision {revision} was {was} and is now {now}")
            });
        }
        let operation = match acknowledged {
            // A difference is reported as a loss.
            Some(write) => write.operation.clone(),
            None => match under_way.iter().position(|sent| is(changes, sent)) {
                Some(place) => under_way.swap_remove(place).clone(),
                None => {
                    let shown = shown(changes);
                    return Some(format!("TORN or never sent, at {revision}: {shown}"));
                }
            },
        };
        self.happened(revision, operation);
        None
    }

    fn happened(&mut self, revision: i64, operation: Operation) {
        for (key, effect) in &operation.effects {
            let Some(counter) = *effect else {
                self.keys.remove(key);
                continue;
            };
            let living = self.keys.entry(key.clone()).or_insert(Living {
                counter,
                created: revision,
                modified: revision,
                version: 0,
            });
            living.counter = counter;
            living.modified = revision;
            living.version += 1;
        }
        self.revisions.insert(revision, operation);
    }

    fn compare_keys(&self, found: &[EncodedKeyValue], verdict: &mut Verdict) {
        let mut missing: BTreeSet<&Bytes> = self.keys.keys().collect();
        for kv in found {
            let fields = kv.fields();
            let key = String::from_utf8_lossy(fields.key);
            missing.remove(&Bytes::copy_from_slice(fields.key));
            let Some(living) = self.keys.get(fields.key) else {
                verdict.tell(format!("EXTRA KEY {key}: its history ends with a deletion"));
                continue;
            };
            let shown = Living {
                counter: living.counter,
                created: fields.create_revision,
                modified: fields.mod_revision,
                version: fields.version,
            };
            if shown != *living || fields.value != value(living.counter) {
                verdict.tell(format!("KEY {key} is {shown:?}; history says {living:?}"));
            }
        }
        for key in missing {
            verdict.tell(format!("MISSING KEY {key:?}: its history says it is there"));
        }
    }
}

impl Verdict {
    fn tell(&mut self, story: String) {
        if self.faults.len() < STORIES_MAX {
            self.faults.push(story);
        }
    }
}

/// All writes that must be present; no two may have the same revision.
fn by_revision<'a>(seen: &'a [Seen], verdict: &mut Verdict) -> BTreeMap<i64, &'a Acknowledged> {
    let mut writes = BTreeMap::new();
    for write in seen.iter().flat_map(|seen| &seen.acknowledged) {
        if write.was_overtaken() {
            verdict.overtaken += 1;
            continue;
        }
        verdict.acknowledged += 1;
        if let Some(other) = writes.insert(write.revision, write) {
            verdict.tell(format!(
                "revision {} was given to clients {} and {}",
                write.revision, other.client, write.client
            ));
        }
    }
    writes
}

/// Whether `changes` are all of `operation` and nothing else.
fn is(changes: &Changes, operation: &Operation) -> bool {
    changes.len() == operation.effects.len()
        && changes
            .iter()
            .zip(&operation.effects)
            .all(|((changed, shown), (key, effect))| changed == key && *shown == effect.map(value))
}

fn words(operation: &Operation) -> String {
    let effects = operation.effects.iter().map(|(key, effect)| {
        let key = short(key);
        match effect {
            Some(counter) => format!("{key}={counter}"),
            None => format!("-{key}"),
        }
    });
    effects.collect::<Vec<_>>().join(" ")
}

fn shown(changes: &Changes) -> String {
    let changes = changes.iter().map(|(key, value)| match value {
        Some(value) => format!("{}={}", short(key), counter_of(value)),
        None => format!("-{}", short(key)),
    });
    changes.collect::<Vec<_>>().join(" ")
}

fn short(key: &Bytes) -> String {
    let key = String::from_utf8_lossy(key);
    key.strip_prefix(PREFIX).unwrap_or(&key).to_owned()
}

/// Values end with their counter, see `model::value`.
fn counter_of(found: &Bytes) -> String {
    match found.last_chunk::<8>().copied().map(u64::from_le_bytes) {
        Some(counter) if *found == value(counter) => counter.to_string(),
        _ => format!("({} bytes that no client sent)", found.len()),
    }
}

#[cfg(test)]
mod tests;
