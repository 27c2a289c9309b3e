//! Walks over the keys of the index, which find entries that have changed in memory.
//!
//! ```text
//!   walk over CURRENT ─► sum ─┬─ the kept one ─► sound
//!                             └─ another ─► each entry's record: its revision
//!                                             ├─ with these the sum is the kept one: proved
//!                                             │    ─► maintain() corrects the entries
//!                                             └─ it is not ─► the index is spoiled
//! ```
//!
//! The kept sum is the proof: entries with other revisions, which happen to give the same 64
//! bits, are as rare as a collision of the hash. An entry with another key or pointer is not
//! corrected, because no record says what it was.

use crate::apply::Index;
use crate::damage::ChangedEntry;
use crate::mend::shown;
use crate::published::Published;
use crate::read::Records;
use crate::record;
use crate::record_pointer::RecordPointer;
use crate::state_hash::of_key;
use crate::trees::{CURRENT, VersionEntry};
use bytes::Bytes;
use ordered_index::Snapshot as Trees;
use std::ops::Bound;

/// Keys that are walked between two questions whether the walk goes on.
const SLICE_KEYS: usize = 4096;
/// A walk ends when more bytes than this, and than a quarter of the index, wait for its end.
const GARBAGE_BYTES_TOLERATED: u64 = 64 << 20;
/// Most entries that are corrected; more than these are no fault of a memory cell.
const CHANGED_MAX: usize = 1024;

/// The outcome of [`Engine::check_keys`](crate::Engine::check_keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWalk {
    /// The keys are those that were applied.
    Sound,
    /// This many entries had changed, and their records prove what they were: the next
    /// [`Applier::maintain`](crate::Applier::maintain) corrects them.
    Correctable(usize),
    /// The keys are not those that were applied, and nothing proves what they were.
    Spoiled,
}

/// Compares the keys in the index with the sum that apply has kept. `None` if `goes_on`, which
/// is asked between slices of the walk, returned false, or if the index is changed too fast: to
/// know the sum of its present state, or to keep all that is replaced until the walk's end.
pub(crate) fn check(records: &Records, goes_on: &mut dyn FnMut() -> bool) -> Option<KeyWalk> {
    let snapshot = records.index.snapshot();
    let kept = records.index.hashes.keys_at(snapshot.revision())?;
    let goes_on = &mut || goes_on() && garbage_is_tolerable(&records.index);
    let mut sum = 0_u64;
    walk(&snapshot.trees, goes_on, |key, entry| {
        sum = sum.wrapping_add(of_key(key, entry.main));
    })?;
    if sum == kept {
        return Some(KeyWalk::Sound);
    }
    let mut changed = Vec::new();
    walk(&snapshot.trees, goes_on, |key, entry| {
        if let Some(proved) = other_revision(records, key, entry) {
            let difference = of_key(key, proved).wrapping_sub(of_key(key, entry.main));
            sum = sum.wrapping_add(difference);
            if changed.len() <= CHANGED_MAX {
                changed.push(ChangedEntry {
                    key: Bytes::copy_from_slice(key),
                    found: entry.main,
                    proved,
                });
            }
        }
    })?;
    if sum != kept || changed.len() > CHANGED_MAX {
        records.damage.note_spoiled_index();
        return Some(KeyWalk::Spoiled);
    }
    let count = changed.len();
    records.damage.changed_entries.note(changed);
    Some(KeyWalk::Correctable(count))
}

fn garbage_is_tolerable(index: &Published) -> bool {
    index.reader.garbage_bytes() <= GARBAGE_BYTES_TOLERATED.max(index.index_bytes() / 4)
}

fn walk(
    trees: &Trees,
    goes_on: &mut dyn FnMut() -> bool,
    mut visit: impl FnMut(&[u8], VersionEntry),
) -> Option<()> {
    let mut cursor = trees.cursor(CURRENT, Bound::Unbounded, Bound::Unbounded);
    let mut walked = 0_usize;
    while let Some((key, entry)) = cursor.next() {
        visit(key, entry.into());
        walked += 1;
        if walked.is_multiple_of(SLICE_KEYS) && !goes_on() {
            return None;
        }
    }
    Some(())
}

/// The revision in an entry's record, if it is not the one that the entry says. Reclaim may
/// have moved the record during the walk: then the entry of the present tree leads to it.
fn other_revision(records: &Records, key: &[u8], entry: VersionEntry) -> Option<i64> {
    let differs = |pointer| {
        let stored = revision_at(records, pointer);
        (stored != Some(entry.main)).then_some(stored)
    };
    differs(entry.pointer)?;
    let now = records.index.reader.pin().get(CURRENT, key)?;
    differs(VersionEntry::from(now).pointer)?
}

fn revision_at(records: &Records, pointer: RecordPointer) -> Option<i64> {
    let length = pointer.record_bytes() as usize;
    let log = &records.log_view.log;
    let header = log.look_at(pointer.position(), length, record::header_in);
    Some(header.ok()?.ok()?.main as i64)
}

/// A change of an entry as a fault of the memory makes it: for tests.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFault {
    /// A bit of its revision flips.
    Revision,
    /// The tree leads to it no more.
    Lost,
}

impl Index {
    /// Changes the entry of a key, and publishes it. False if there is no such key.
    pub(crate) fn spoil(&mut self, key: &[u8], fault: MemoryFault, records: &Records) -> bool {
        let Some(entry) = self.writer.get(CURRENT, key) else {
            return false;
        };
        let mut version = VersionEntry::from(entry);
        version.main ^= 1;
        match fault {
            MemoryFault::Revision => self.writer.insert(CURRENT, key, version.entry()),
            MemoryFault::Lost => self.writer.remove(CURRENT, key),
        };
        self.publish(records);
        true
    }

    /// Corrects entries that have changed in memory, unless they were written over since.
    pub(crate) fn correct(&mut self, records: &Records) {
        let changed = records.damage.changed_entries.take();
        if changed.is_empty() {
            return;
        }
        for ChangedEntry { key, found, proved } in changed {
            let entry = self.writer.get(CURRENT, &key).map(VersionEntry::from);
            let Some(mut entry) = entry.filter(|entry| entry.main == found) else {
                continue;
            };
            entry.main = proved;
            self.writer.insert(CURRENT, &key, entry.entry());
            tracing::error!(
                key = %shown(&key),
                revision = proved,
                found,
                "the entry of a key had changed in the memory of this member, and was corrected: \
                 the memory is faulty, or this is a bug; replace the machine if it happens again"
            );
        }
        self.publish(records);
    }
}
