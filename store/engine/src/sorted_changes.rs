//! Gathered changes in runs, each in the order of keys, and merging them.
//!
//! ```text
//!   run 1    [a c c][d f h]        pieces, of which the first ones are freed when all portions
//!   run 2    [b c d][e e g]        that took changes of them are built
//!   taken up to d: [a c c][d . .] [b c d]  ─►  a b c d, the last change of each
//! ```

use crate::last_changes::{ChangeRun, GatheredChange};
use crate::trees::VersionEntry;
use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::{Bound, Range};
use std::slice;
use std::sync::Arc;

/// Changes in a piece: 128 KiB of them.
const PIECE_CHANGES: usize = if cfg!(test) { 1 << 3 } else { 1 << 12 };
/// When pieces of this size together were taken, the system gets free memory back. The allocator would
/// keep it, and the nodes of the index, which have a heap of their own, could not use it.
const RETURNED_BYTES: usize = 32 << 20;

/// Runs of changes, and how far each was taken.
#[derive(Debug, Default)]
pub(crate) struct SortedRuns {
    runs: Vec<SortedRun>,
    /// Bytes of pieces that were taken to the end since memory was given back.
    taken_bytes: usize,
}

#[derive(Debug)]
struct SortedRun {
    pieces: VecDeque<Arc<ChangePiece>>,
    /// Changes of the first piece that were taken.
    front: usize,
}

/// Some changes that follow each other in the order of keys.
#[derive(Debug)]
struct ChangePiece {
    changes: Vec<GatheredChange>,
    /// Their longer keys.
    keys: Vec<u8>,
}

/// Taken changes of one piece.
#[derive(Debug)]
pub(crate) struct Stretch {
    piece: Arc<ChangePiece>,
    changes: Range<usize>,
}

/// A change and the piece that has its key. Ordered by key, and then as they lie in the log.
#[derive(Clone, Copy)]
struct Placed<'p> {
    keys: &'p [u8],
    change: &'p GatheredChange,
}

impl<'p> Placed<'p> {
    fn key(self) -> &'p [u8] {
        self.change.key(self.keys)
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

impl SortedRuns {
    /// Sorts a run, and takes its changes over.
    pub(crate) fn push(&mut self, run: &mut ChangeRun) {
        let keys = &run.keys[..];
        run.changes.sort_unstable_by(|left, right| {
            let [left, right] = [left, right].map(|change| Placed { keys, change });
            left.cmp(&right)
        });
        let pieces = run.changes.chunks(PIECE_CHANGES);
        self.runs.push(SortedRun {
            pieces: pieces
                .map(|changes| Arc::new(ChangePiece::of(changes, keys)))
                .collect(),
            front: 0,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes the changes of keys up to `end` that were not taken yet.
    pub(crate) fn take_to(&mut self, end: Bound<&[u8]>, taken: &mut Vec<Stretch>) {
        for run in &mut self.runs {
            self.taken_bytes += run.take_to(end, taken);
        }
        if self.taken_bytes >= RETURNED_BYTES {
            self.taken_bytes = 0;
            environment::real::return_free_memory();
        }
    }
}

impl SortedRun {
    /// Returns the bytes of the pieces of which the rest was taken.
    fn take_to(&mut self, end: Bound<&[u8]>, taken: &mut Vec<Stretch>) -> usize {
        let mut taken_bytes = 0;
        while let Some(piece) = self.pieces.front() {
            let changes = self.front..piece.up_to(end).max(self.front);
            if changes.end < piece.changes.len() {
                self.front = changes.end;
                if !changes.is_empty() {
                    let piece = Arc::clone(piece);
                    taken.push(Stretch { piece, changes });
                }
                break;
            }
            let piece = self.pieces.pop_front().expect("just seen");
            taken_bytes += piece.bytes();
            self.front = 0;
            taken.push(Stretch { piece, changes });
        }
        taken_bytes
    }
}

impl ChangePiece {
    /// The changes, with those of `keys` that are theirs.
    fn of(changes: &[GatheredChange], keys: &[u8]) -> ChangePiece {
        let mut own = Vec::new();
        let moved = changes.iter().map(|change| change.moved(keys, &mut own));
        ChangePiece {
            changes: moved.collect(),
            keys: own,
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.changes[..]) + self.keys.len()
    }

    /// Changes in front of the first one with a key behind `end`.
    fn up_to(&self, end: Bound<&[u8]>) -> usize {
        self.changes.partition_point(|change| match end {
            Bound::Included(end) => change.key(&self.keys) <= end,
            Bound::Excluded(end) => change.key(&self.keys) < end,
            Bound::Unbounded => true,
        })
    }
}

impl Stretch {
    fn place<'p>(&'p self, change: &'p GatheredChange) -> Placed<'p> {
        let keys = &self.piece.keys;
        Placed { keys, change }
    }
}

/// The last change of each key, in the order of keys.
pub(crate) struct LastOfEachKey<'p> {
    /// The next change of each stretch, the least one first.
    next: BinaryHeap<Reverse<(Placed<'p>, usize)>>,
    /// The changes of each stretch behind that one.
    rest: Vec<slice::Iter<'p, GatheredChange>>,
    stretches: &'p [Stretch],
}

impl<'p> LastOfEachKey<'p> {
    pub(crate) fn new(stretches: &'p [Stretch]) -> LastOfEachKey<'p> {
        let changes = |it: &'p Stretch| it.piece.changes[it.changes.clone()].iter();
        let mut rest: Vec<_> = stretches.iter().map(changes).collect();
        let fronts = rest.iter_mut().zip(stretches).enumerate();
        let next = fronts.filter_map(|(number, (changes, stretch))| {
            let first = stretch.place(changes.next()?);
            Some(Reverse((first, number)))
        });
        LastOfEachKey {
            next: next.collect(),
            rest,
            stretches,
        }
    }

    fn pop(&mut self) -> Option<Placed<'p>> {
        let mut top = self.next.peek_mut()?;
        let Reverse((least, number)) = *top;
        match self.rest[number].next() {
            Some(change) => top.0.0 = self.stretches[number].place(change),
            None => drop(PeekMut::pop(top)),
        }
        Some(least)
    }
}

impl<'p> Iterator for LastOfEachKey<'p> {
    type Item = (&'p [u8], VersionEntry);

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
    use crate::last_changes::LastChanges;
    use crate::record_pointer::RecordPointer;
    use value_log::Position;

    #[test]
    fn pieces_are_freed_when_all_that_was_taken_of_them_is() {
        let mut gathered = LastChanges::default();
        for number in 0..200_u64 {
            // In two orders, so that each run has its pieces, with keys of two lengths.
            let key = number * 71 % 200;
            let place = Position::new(7, number * 8);
            let version = VersionEntry {
                pointer: RecordPointer::new(place, 64),
                main: 1 + number as i64,
                tombstone: false,
            };
            match key % 2 {
                0 => gathered.push(&key.to_be_bytes(), version),
                _ => gathered.push(&[&key.to_be_bytes()[..], b"longer"].concat(), version),
            }
        }
        let mut runs = gathered.take();
        assert_eq!((gathered.len(), gathered.bytes()), (0, 0));
        let pieces = runs.runs.iter().flat_map(|run| &run.pieces);
        let pieces: Vec<_> = pieces.map(Arc::downgrade).collect();
        let alive = || pieces.iter().filter(|it| it.strong_count() > 0).count();
        let all = alive();
        assert!(all >= 200 / PIECE_CHANGES);
        let mut found = 0_u64;
        for end in [50_u64, 100, 150, 200] {
            let mut taken = Vec::new();
            runs.take_to(Bound::Excluded(&end.to_be_bytes()), &mut taken);
            for (key, version) in LastOfEachKey::new(&taken) {
                let number = u64::from_be_bytes(key[..8].try_into().unwrap());
                assert_eq!(number, found);
                assert_eq!((version.main as u64 - 1) * 71 % 200, number);
                found += 1;
            }
            assert_eq!(found, end);
            drop(taken);
            // Each run keeps the piece that it was taken into.
            let most = all - all * end as usize / 200 + runs.runs.len();
            assert!(alive() <= most, "{} of {all} at {end}", alive());
        }
        assert_eq!(alive(), 0);
    }
}
