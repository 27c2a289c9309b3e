//! Deletions of many keys, as one command makes them.
//!
//! The keys of such deletions ascend, so each leaf of the trees is written once for all
//! of its keys (`Writer::change_sorted`). That is some five times as fast as one by one,
//! and the only thread that writes can do nothing else during that time.

use crate::KeyChange;
use crate::apply::{Index, version_entry};
use crate::creations::{Creations, Transition};
use crate::live::Live;
use crate::record_pointer::RecordPointer;
use crate::trees::{CURRENT, HISTORY, VersionEntry};
use crate::{hidden, history_key};
use ordered_index::{Change, IndexEntry};

/// Shorter batches, and shorter runs of deletions, are applied one by one.
pub(crate) const KEYS_MIN: usize = 64;
/// Most deletions applied at once, so that what is built for them stays in the processor's
/// caches.
const KEYS_MAX: usize = 1024;

impl Index {
    /// [`Index::apply_key`] for all of a large batch.
    pub(crate) fn apply_runs(
        &mut self,
        live: &mut Live,
        creations: &mut Creations,
        changes: &[(&KeyChange, RecordPointer)],
    ) {
        for run in changes.chunk_by(|(left, _), (right, _)| is_run(left, right)) {
            if run.len() >= KEYS_MIN {
                for run in run.chunks(KEYS_MAX) {
                    self.delete_run(live, creations, run);
                }
                continue;
            }
            for &(change, pointer) in run {
                if let Some(transition) = self.apply_key(live, change, pointer) {
                    creations.note(change.revision.main, &change.key, transition);
                }
            }
        }
    }

    /// Applies deletions of one transaction in ascending order of their keys.
    fn delete_run(
        &mut self,
        live: &mut Live,
        creations: &mut Creations,
        run: &[(&KeyChange, RecordPointer)],
    ) {
        let removals: Vec<Change<'_>> = run
            .iter()
            .map(|(change, _)| Change {
                key: &change.key,
                entry: None,
            })
            .collect();
        let before = self.writer.change_sorted(CURRENT, &removals);
        let mut past = Past::default();
        for (&(change, pointer), before) in run.iter().zip(before) {
            let deletion = version_entry(change, pointer);
            live.born(deletion.pointer);
            past.push(&change.key, deletion);
            let Some(before) = before.map(VersionEntry::from) else {
                continue;
            };
            self.sums.leave(&change.key, before.main);
            creations.note(deletion.main, &change.key, Transition::Deleted);
            if before.main < deletion.main {
                past.push(&change.key, before);
            } else {
                hidden::keep(&mut self.writer, live, &change.key, before);
            }
        }
        let twins = self.writer.change_sorted(HISTORY, &past.changes());
        for twin in twins.into_iter().flatten() {
            live.died(VersionEntry::from(twin).pointer);
        }
    }
}

/// Both are deletions of one transaction, and the second one's key is greater.
fn is_run(left: &KeyChange, right: &KeyChange) -> bool {
    left.tombstone
        && right.tombstone
        && left.revision.main == right.revision.main
        && left.key < right.key
}

/// Entries of HISTORY, in order.
#[derive(Default)]
struct Past {
    /// Encoded keys, one behind the other.
    keys: Vec<u8>,
    /// Where each key ends, and its entry.
    entries: Vec<(usize, IndexEntry)>,
}

impl Past {
    fn push(&mut self, key: &[u8], version: VersionEntry) {
        history_key::encode_to(key, version.main as u64, &mut self.keys);
        self.entries.push((self.keys.len(), version.entry()));
    }

    fn changes(&self) -> Vec<Change<'_>> {
        let mut start = 0;
        let entries = self.entries.iter();
        let changes = entries.map(|&(end, entry)| {
            let key = &self.keys[start..end];
            start = end;
            Change {
                key,
                entry: Some(entry),
            }
        });
        changes.collect()
    }
}
