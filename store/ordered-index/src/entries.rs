//! The entries of a leaf.

use crate::IndexEntry;
use crate::rows::Rows;
use std::ops::Range;

/// The upper bits of a word, which tend to be the same or few in many entries (the engine: a
/// length in front of a position, a mark in front of a revision), are a number of their own.
const LOW_BITS: u32 = 48;
const LOW: u64 = (1 << LOW_BITS) - 1;

/// Entries, in the order of the leaf's keys.
#[derive(Debug, Default)]
pub(crate) struct Entries(Rows<4>);

/// An entry as the numbers that are packed.
type EntryRow = [u64; 4];

impl Entries {
    /// A block of these entries, with room for `capacity` of them, and for a field of them that
    /// widens.
    pub(crate) fn of(entries: &[IndexEntry], capacity: usize) -> Entries {
        // A byte more for each.
        let more_bytes = capacity;
        let rows = entries.iter().map(row);
        Entries(Rows::with_more_room(rows, capacity, more_bytes))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    #[inline]
    pub(crate) fn get(&self, slot: usize) -> IndexEntry {
        entry(&self.0.row(slot))
    }

    pub(crate) fn insert(&mut self, slot: usize, new: IndexEntry) {
        self.0.insert(slot, &row(&new));
    }

    /// Returns the entry that the new one replaces.
    pub(crate) fn replace(&mut self, slot: usize, new: IndexEntry) -> IndexEntry {
        let old = self.get(slot);
        self.0.set(slot, &row(&new));
        old
    }

    pub(crate) fn remove(&mut self, slot: usize) -> IndexEntry {
        entry(&self.0.remove(slot))
    }

    /// A tight block of some of them.
    pub(crate) fn part(&self, slots: Range<usize>) -> Entries {
        let rows = self.0.rows(slots);
        let len = rows.len();
        Entries(Rows::of(rows, len))
    }

    /// A tight block of them and those of `right` behind them.
    pub(crate) fn followed_by(&self, right: &Entries) -> Entries {
        let (left, right) = (self.0.rows(0..self.len()), right.0.rows(0..right.len()));
        let all: Vec<EntryRow> = left.chain(right).collect();
        Entries(Rows::of(all.iter().copied(), all.len()))
    }

    /// Whether a copy with room for `capacity` entries fits into the memory of `old`.
    pub(crate) fn fits_into(&self, old: &Entries, capacity: usize) -> bool {
        self.0.fits_into(&old.0, capacity)
    }

    /// Replaces the content of `copy` by this one's, with room for about `capacity` entries.
    pub(crate) fn copy_to(&self, copy: &mut Entries, capacity: usize) {
        self.0.copy_to(&mut copy.0, capacity);
    }
}

#[inline]
fn row(entry: &IndexEntry) -> EntryRow {
    let IndexEntry { value, stamp } = *entry;
    [
        value & LOW,
        value >> LOW_BITS,
        stamp & LOW,
        stamp >> LOW_BITS,
    ]
}

#[inline]
fn entry([value, value_high, stamp, stamp_high]: &EntryRow) -> IndexEntry {
    IndexEntry {
        value: value_high << LOW_BITS | value,
        stamp: stamp_high << LOW_BITS | stamp,
    }
}
