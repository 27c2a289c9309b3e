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

/// Most bytes in a piece, with longer keys, unless it is a single change.
const PIECE_BYTES: usize = if cfg!(test) { 256 } else { 128 << 10 };
/// Pieces that a slice takes of all runs together; with more runs than this, up to one of each.
const SLICE_PIECES: usize = 16;

/// Runs of changes, and how far each was taken.
#[derive(Debug, Default)]
pub(crate) struct SortedRuns {
    runs: Vec<SortedRun>,
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
        self.runs.push(SortedRun {
            pieces: pieces(&run.changes, keys),
            front: 0,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of the changes of keys up to `end` that were not taken yet.
    pub(crate) fn count_to(&self, end: Bound<&[u8]>) -> usize {
        self.runs.iter().map(|run| run.count_to(end)).sum()
    }

    /// Takes the changes of keys up to `end` that were not taken yet.
    pub(crate) fn take_to(&mut self, end: Bound<&[u8]>, taken: &mut Vec<Stretch>) {
        for run in &mut self.runs {
            run.take_to(end, taken);
        }
    }

    /// Takes some of them, those of the least keys, and at least one, if there are any.
    pub(crate) fn take_slice(&mut self, end: Bound<&[u8]>, taken: &mut Vec<Stretch>) {
        let pieces_each = (SLICE_PIECES / self.runs.len().max(1)).max(1);
        let borders = self.runs.iter().filter_map(|run| run.border(pieces_each));
        let least = borders.min().filter(|border| is_up_to(border, end));
        // A copy, because the piece that has it may be taken.
        let border = least.map(<[u8]>::to_vec);
        match &border {
            Some(border) => self.take_to(Bound::Included(border), taken),
            None => self.take_to(end, taken),
        }
    }
}

fn is_up_to(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    }
}

/// Sorted changes in pieces, with those of `keys` that are theirs.
fn pieces(mut changes: &[GatheredChange], keys: &[u8]) -> VecDeque<Arc<ChangePiece>> {
    let mut pieces = VecDeque::new();
    while !changes.is_empty() {
        let mut bytes = 0;
        let fitting = changes.iter().take_while(|change| {
            bytes += change.bytes();
            bytes <= PIECE_BYTES
        });
        let (piece, rest) = changes.split_at(fitting.count().max(1));
        pieces.push_back(Arc::new(ChangePiece::of(piece, keys)));
        changes = rest;
    }
    pieces
}

impl SortedRun {
    fn count_to(&self, end: Bound<&[u8]>) -> usize {
        let mut count = 0;
        for piece in &self.pieces {
            let up_to = piece.up_to(end);
            count += up_to;
            if up_to < piece.changes.len() {
                break;
            }
        }
        count.saturating_sub(self.front)
    }

    fn take_to(&mut self, end: Bound<&[u8]>, taken: &mut Vec<Stretch>) {
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
            self.front = 0;
            taken.push(Stretch { piece, changes });
        }
    }

    /// The last key of its first pieces; `None` if it was taken to the end.
    fn border(&self, pieces: usize) -> Option<&[u8]> {
        let last = self.pieces.iter().take(pieces).next_back()?;
        let change = last.changes.last().expect("a piece has changes");
        Some(change.key(&last.keys))
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

    /// Changes in front of the first one with a key behind `end`.
    fn up_to(&self, end: Bound<&[u8]>) -> usize {
        let is_before = |change: &GatheredChange| is_up_to(change.key(&self.keys), end);
        self.changes.partition_point(is_before)
    }
}

impl Stretch {
    /// Bytes of the changes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let changes = self.piece.changes[self.changes.clone()].iter();
        changes.map(GatheredChange::bytes).sum()
    }

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
        assert!(all > 200 * 32 / PIECE_BYTES);
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

    #[test]
    fn slices_go_up_to_the_end_in_the_order_of_keys() {
        let mut gathered = LastChanges::default();
        for number in 0..3_000_u64 {
            let key = number * 1_237 % 1_000;
            let version = VersionEntry {
                pointer: RecordPointer::new(Position::new(7, number * 8), 64),
                main: 1 + number as i64,
                tombstone: false,
            };
            gathered.push(&key.to_be_bytes(), version);
        }
        let mut runs = gathered.take();
        let mut found = 0_u64;
        for end in [300_u64, 301, 1_000] {
            let bytes = end.to_be_bytes();
            let bound = Bound::Excluded(&bytes[..]);
            let count = runs.count_to(bound);
            let mut counted = 0;
            loop {
                let mut taken = Vec::new();
                runs.take_slice(bound, &mut taken);
                if taken.is_empty() {
                    break;
                }
                counted += taken.iter().map(|it| it.changes.len()).sum::<usize>();
                for (key, version) in LastOfEachKey::new(&taken) {
                    assert_eq!(key, found.to_be_bytes());
                    assert!(version.main > 2_000, "the last of three");
                    found += 1;
                }
            }
            assert_eq!((found, counted), (end, count));
        }
    }
}
