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

use crate::trees::VersionEntry;
use ordered_index::IndexEntry;
use smallvec::SmallVec;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::{Bound, Range};
use std::{mem, slice};
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
    sorted: Vec<ChangeRun>,
    /// Bytes of all of them in memory.
    bytes: usize,
}

/// Changes that came one after the other.
#[derive(Debug, Default)]
pub(crate) struct ChangeRun {
    /// Most groups have one change, which is stored here without an allocation: one thread would
    /// allocate it, and another one free it.
    changes: SmallVec<[GatheredChange; 1]>,
    /// Keys that are longer than a head, one after the other.
    keys: Vec<u8>,
}

#[derive(Debug)]
struct GatheredChange {
    /// The first bytes of the key, with zeros behind a shorter one.
    head: [u8; HEAD_BYTES],
    /// Where a longer key is in the run's keys.
    start: u32,
    bytes: u32,
    entry: IndexEntry,
}

impl GatheredChange {
    fn key<'k>(&'k self, run: &'k ChangeRun) -> &'k [u8] {
        let (start, bytes) = (self.start as usize, self.bytes as usize);
        match bytes <= HEAD_BYTES {
            true => &self.head[..bytes],
            false => &run.keys[start..start + bytes],
        }
    }

    /// Ascends with the log, also within a transaction.
    fn place(&self) -> Position {
        VersionEntry::from(self.entry).pointer.position()
    }
}

/// A change and the run that has its key. Ordered by key, and then as they lie in the log.
#[derive(Clone, Copy)]
struct Placed<'r> {
    run: &'r ChangeRun,
    change: &'r GatheredChange,
}

impl<'r> Placed<'r> {
    fn key(self) -> &'r [u8] {
        self.change.key(self.run)
    }

    fn compare_keys(self, other: Placed<'_>) -> Ordering {
        let heads = [self, other].map(|one| u64::from_be_bytes(one.change.head));
        let by_head = heads[0].cmp(&heads[1]);
        by_head.then_with(|| self.key().cmp(other.key()))
    }
}

impl Ord for Placed<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.compare_keys(*other);
        by_key.then_with(|| self.change.place().cmp(&other.change.place()))
    }
}

impl PartialOrd for Placed<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Placed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Placed<'_> {}

impl LastChanges {
    pub(crate) fn push(&mut self, key: &[u8], version: VersionEntry) {
        if self.open.changes.is_empty() {
            // As one allocation, which goes back to the system as a whole.
            self.open.changes.reserve_exact(RUN_CHANGES_MAX);
        }
        self.bytes += self.open.push(key, version);
        if self.open.is_full() {
            self.sort();
        }
    }

    /// Adds the changes of a run, which is not sorted.
    pub(crate) fn absorb(&mut self, run: &ChangeRun) {
        for change in &run.changes {
            self.push(change.key(run), VersionEntry::from(change.entry));
        }
    }

    /// Bytes of the changes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of the changes.
    pub(crate) fn len(&self) -> usize {
        let sorted = self.sorted.iter().map(|run| run.changes.len());
        self.open.changes.len() + sorted.sum::<usize>()
    }

    /// All changes in runs, each in the order of keys.
    pub(crate) fn runs(&mut self) -> &[ChangeRun] {
        self.sort();
        &self.sorted
    }

    /// Shows the last change of each key, in the order of keys, and forgets all of them.
    pub(crate) fn drain(&mut self, mut show: impl FnMut(&[u8], VersionEntry)) {
        let mut all = Vec::new();
        let runs = self.runs();
        FrontOfRuns::new(runs).take_to(runs, Bound::Unbounded, &mut all);
        LastOfEachKey::new(runs, &all).for_each(|(key, version)| show(key, version));
        *self = LastChanges::default();
    }

    fn sort(&mut self) {
        if !self.open.changes.is_empty() {
            let mut run = mem::take(&mut self.open);
            run.sort();
            self.sorted.push(run);
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

    fn sort(&mut self) {
        let mut changes = mem::take(&mut self.changes);
        changes.sort_unstable_by(|left, right| self.place(left).cmp(&self.place(right)));
        self.changes = changes;
    }

    fn place<'r>(&'r self, change: &'r GatheredChange) -> Placed<'r> {
        Placed { run: self, change }
    }

    /// Changes in front of the first one with a key behind `end`. They are sorted.
    fn up_to(&self, end: Bound<&[u8]>) -> usize {
        self.changes.partition_point(|change| match end {
            Bound::Included(end) => change.key(self) <= end,
            Bound::Excluded(end) => change.key(self) < end,
            Bound::Unbounded => true,
        })
    }
}

/// Some changes of one run.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    run: usize,
    changes: Range<usize>,
}

/// How far each of some runs was taken.
#[derive(Debug)]
pub(crate) struct FrontOfRuns(Vec<usize>);

impl FrontOfRuns {
    pub(crate) fn new(runs: &[ChangeRun]) -> FrontOfRuns {
        FrontOfRuns(vec![0; runs.len()])
    }

    /// Takes the changes of keys up to `end` that were not taken yet.
    pub(crate) fn take_to(
        &mut self,
        runs: &[ChangeRun],
        end: Bound<&[u8]>,
        taken: &mut Vec<Stretch>,
    ) {
        for (run, front) in self.0.iter_mut().enumerate() {
            let changes = *front..runs[run].up_to(end).max(*front);
            *front = changes.end;
            if !changes.is_empty() {
                taken.push(Stretch { run, changes });
            }
        }
    }
}

/// The last change of each key, in the order of keys.
pub(crate) struct LastOfEachKey<'r> {
    /// The next change of each stretch, the least one first.
    next: BinaryHeap<Reverse<(Placed<'r>, usize)>>,
    /// The changes of each stretch behind that one.
    rest: Vec<slice::Iter<'r, GatheredChange>>,
}

impl<'r> LastOfEachKey<'r> {
    pub(crate) fn new(runs: &'r [ChangeRun], stretches: &[Stretch]) -> LastOfEachKey<'r> {
        let changes = |it: &Stretch| runs[it.run].changes[it.changes.clone()].iter();
        let mut rest: Vec<_> = stretches.iter().map(changes).collect();
        let fronts = rest.iter_mut().zip(stretches).enumerate();
        let next = fronts.filter_map(|(number, (changes, stretch))| {
            let first = runs[stretch.run].place(changes.next()?);
            Some(Reverse((first, number)))
        });
        LastOfEachKey {
            next: next.collect(),
            rest,
        }
    }

    fn pop(&mut self) -> Option<Placed<'r>> {
        let mut top = self.next.peek_mut()?;
        let Reverse((least, number)) = *top;
        match self.rest[number].next() {
            Some(change) => top.0.0 = least.run.place(change),
            None => drop(PeekMut::pop(top)),
        }
        Some(least)
    }
}

impl<'r> Iterator for LastOfEachKey<'r> {
    type Item = (&'r [u8], VersionEntry);

    fn next(&mut self) -> Option<Self::Item> {
        let mut last = self.pop()?;
        while let Some(Reverse((next, _))) = self.next.peek()
            && next.compare_keys(last).is_eq()
        {
            last = self.pop().expect("just seen");
        }
        Some((last.key(), VersionEntry::from(last.change.entry)))
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
