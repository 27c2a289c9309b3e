//! Changes of replayed batches, for a store that keeps no history: only the last one of a key
//! counts.
//!
//! ```text
//!   batches    b=1 a=2 | b=3 | c=4 a†     in the order of the log
//!   shown      a†   b=3   c=4             in the order of keys, the last change of each
//! ```
//!
//! In the order of the log each change waits for memory that no other one needs. In the order of
//! keys all of them are merged with a checkpoint while it is loaded, or the index is walked from
//! left to right.

use crate::sorted_changes::{LastOfEachKey, SortedRuns};
use crate::trees::VersionEntry;
use ordered_index::IndexEntry;
use smallvec::SmallVec;
use std::mem;
use std::ops::Bound;
use value_log::Position;

/// Changes that are sorted together. Sorting them takes the time of reading some megabytes of
/// the log, and the thread that reads is that far ahead.
const RUN_CHANGES_MAX: usize = if cfg!(test) { 1 << 6 } else { 1 << 17 };
/// Bytes of their longer keys, at most; a single key may exceed it.
const RUN_KEY_BYTES_MAX: usize = 8 << 20;
/// Keys up to this length are stored in the change.
const HEAD_BYTES: usize = 8;

/// Gathered changes that are not in the index yet.
#[derive(Debug, Default)]
pub(crate) struct LastChanges {
    /// In the order of the log, behind those of `sorted`.
    open: ChangeRun,
    sorted: SortedRuns,
    /// Number of all of them, and their bytes in memory.
    count: usize,
    bytes: usize,
}

/// Changes that came one after the other.
#[derive(Debug, Default)]
pub(crate) struct ChangeRun {
    /// Most groups have one change, which is stored here without an allocation: one thread would
    /// allocate it, and another one free it.
    pub(crate) changes: SmallVec<[GatheredChange; 1]>,
    /// Keys that are longer than a head, one after the other.
    pub(crate) keys: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GatheredChange {
    /// The first bytes of the key, with zeros behind a shorter one.
    pub(crate) head: [u8; HEAD_BYTES],
    /// Where a longer key is in the keys that belong to the change.
    start: u32,
    bytes: u32,
    pub(crate) entry: IndexEntry,
}

impl GatheredChange {
    pub(crate) fn key<'k>(&'k self, keys: &'k [u8]) -> &'k [u8] {
        let (start, bytes) = (self.start as usize, self.bytes as usize);
        match bytes <= HEAD_BYTES {
            true => &self.head[..bytes],
            false => &keys[start..start + bytes],
        }
    }

    /// Bytes in memory, with a longer key.
    pub(crate) fn bytes(&self) -> usize {
        let elsewhere = Some(self.bytes as usize).filter(|&bytes| bytes > HEAD_BYTES);
        size_of::<GatheredChange>() + elsewhere.unwrap_or(0)
    }

    /// Ascends with the log, also within a transaction.
    pub(crate) fn place(&self) -> Position {
        VersionEntry::from(self.entry).pointer.position()
    }

    /// The change with its key moved from one place to the end of another.
    pub(crate) fn moved(self, from: &[u8], to: &mut Vec<u8>) -> GatheredChange {
        if self.bytes as usize <= HEAD_BYTES {
            return self;
        }
        let start = to.len() as u32;
        to.extend_from_slice(self.key(from));
        GatheredChange { start, ..self }
    }
}

impl LastChanges {
    pub(crate) fn push(&mut self, key: &[u8], version: VersionEntry) {
        if self.open.changes.is_empty() {
            self.open.changes.reserve_exact(RUN_CHANGES_MAX);
        }
        self.count += 1;
        self.bytes += self.open.push(key, version);
        if self.open.is_full() {
            self.sort();
        }
    }

    /// Adds the changes of a run, which is not sorted.
    pub(crate) fn absorb(&mut self, run: &ChangeRun) {
        for change in &run.changes {
            self.push(change.key(&run.keys), VersionEntry::from(change.entry));
        }
    }

    /// Bytes of the changes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of the changes.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// All changes, which are forgotten here, in runs, each in the order of keys.
    pub(crate) fn take(&mut self) -> SortedRuns {
        self.sort();
        mem::take(self).sorted
    }

    /// Shows the last change of each key, in the order of keys, and forgets all of them.
    pub(crate) fn drain(&mut self, mut show: impl FnMut(&[u8], VersionEntry)) {
        let mut all = Vec::new();
        self.take().take_to(Bound::Unbounded, &mut all);
        LastOfEachKey::new(&all).for_each(|(key, version)| show(key, version));
    }

    fn sort(&mut self) {
        if !self.open.changes.is_empty() {
            self.sorted.push(&mut self.open);
            self.open.changes.clear();
            self.open.keys.clear();
        }
    }
}

impl ChangeRun {
    pub(crate) fn with_capacity(changes: usize) -> ChangeRun {
        ChangeRun {
            changes: SmallVec::with_capacity(changes),
            keys: Vec::new(),
        }
    }

    /// Bytes of the changes in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.changes[..]) + self.keys.len()
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= RUN_CHANGES_MAX || self.keys.len() >= RUN_KEY_BYTES_MAX
    }

    /// Returns the bytes that the change takes.
    pub(crate) fn push(&mut self, key: &[u8], version: VersionEntry) -> usize {
        let (mut head, in_head) = ([0; HEAD_BYTES], key.len().min(HEAD_BYTES));
        head[..in_head].copy_from_slice(&key[..in_head]);
        let elsewhere = if key.len() > HEAD_BYTES { key } else { &[] };
        self.changes.push(GatheredChange {
            head,
            start: self.keys.len() as u32,
            bytes: key.len() as u32,
            entry: version.entry(),
        });
        self.keys.extend_from_slice(elsewhere);
        size_of::<GatheredChange>() + elsewhere.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_pointer::RecordPointer;
    use environment::randomness::Random;
    use std::collections::BTreeMap;
    use value_log::Position;

    #[test]
    fn the_last_change_of_each_key_is_shown_in_the_order_of_keys() {
        let mut random = Random::from_seed(1);
        let mut gathered = LastChanges::default();
        for _ in 0..20 {
            let mut expected = BTreeMap::new();
            for step in 0..2_000 {
                // Some transactions write a key more than once.
                let mut key = vec![b'k'; random.below(12) as usize];
                random.fill(&mut key[..]);
                key.iter_mut().for_each(|byte| *byte %= 2);
                let tombstone = random.chance(1, 3);
                let pointer = RecordPointer::new(Position::new(7, step as u64 * 8), 64);
                let version = VersionEntry {
                    pointer,
                    main: 1 + step / 40,
                    tombstone,
                };
                gathered.push(&key, version);
                expected.insert(key, (pointer, tombstone));
            }
            let mut shown = Vec::new();
            gathered.drain(|key, version| {
                shown.push((key.to_vec(), (version.pointer, version.tombstone)));
            });
            assert!(shown.into_iter().eq(expected));
        }
    }
}
