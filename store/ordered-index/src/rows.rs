//! Rows of numbers, each number in as few bytes as all of its field need.
//!
//! ```text
//!   fields      base 0x6100...  base 0x1009    base 500        once for all rows
//!   bytes     | 3 bytes | 0 | 1 | 3 bytes | 0 | 1 | ...       one row behind the other
//! ```
//!
//! A number that does not fit the packing of its field makes all rows be packed again, with
//! a wider field. Fields never get narrower: only rows made of others ([`Rows::of`]) are tight.
//!
//! Invariant: while there are rows, [`LOAD_BYTES`] more bytes stand behind them, so that
//! every number can be loaded as a whole word.

use crate::capacity::{SLOTS_IN_CLASS, capacity_for, fits};
use crate::node_vec::NodeVec;
use crate::packing::{Packing, Spread};
use std::ops::Range;

/// Bytes of a load or a store, whatever the width of the number.
const LOAD_BYTES: usize = size_of::<u64>();
/// A search looks at one row of this many first.
const ROWS_IN_STEP: usize = 8;

#[derive(Debug)]
pub(crate) struct Rows<const FIELDS: usize> {
    fields: [Packing; FIELDS],
    len: u32,
    row_bytes: u8,
    bytes: NodeVec<u8>,
}

impl<const FIELDS: usize> Default for Rows<FIELDS> {
    fn default() -> Self {
        Rows {
            fields: [Packing::default(); FIELDS],
            len: 0,
            row_bytes: 0,
            bytes: NodeVec::new(),
        }
    }
}

impl<const FIELDS: usize> Rows<FIELDS> {
    /// These rows, with room for `capacity` of them.
    pub(crate) fn of(
        rows: impl ExactSizeIterator<Item = [u64; FIELDS]> + Clone,
        capacity: usize,
    ) -> Self {
        Self::with_more_room(rows, capacity, 0)
    }

    /// These rows, with room for `capacity` of them and `more_bytes` besides.
    pub(crate) fn with_more_room(
        rows: impl ExactSizeIterator<Item = [u64; FIELDS]> + Clone,
        capacity: usize,
        more_bytes: usize,
    ) -> Self {
        let mut others = rows.clone();
        let Some(first) = others.next() else {
            return Rows::default();
        };
        let mut spreads = first.map(Spread::of);
        for row in others {
            for (spread, number) in spreads.iter_mut().zip(row) {
                spread.add(number);
            }
        }
        let fields = spreads.each_ref().map(Packing::of);
        Self::packed_as(fields, rows, capacity, more_bytes)
    }

    /// Rows that fit these packings.
    fn packed_as(
        mut fields: [Packing; FIELDS],
        rows: impl ExactSizeIterator<Item = [u64; FIELDS]>,
        capacity: usize,
        more_bytes: usize,
    ) -> Self {
        let mut row_bytes = 0;
        for field in &mut fields {
            field.offset = row_bytes;
            row_bytes += field.width();
        }
        let mut packed = Rows {
            fields,
            len: rows.len() as u32,
            row_bytes,
            bytes: NodeVec::new(),
        };
        let bytes = packed.bytes_of(capacity.max(rows.len()));
        packed.bytes = NodeVec::with_capacity(bytes + more_bytes);
        packed.bytes.fill_to(packed.bytes_of(rows.len()));
        // Each word is stored whole: what stands behind its number is stored after it.
        let (mut start, row_bytes) = (0, usize::from(row_bytes));
        for row in rows {
            for (field, number) in fields.iter().zip(row) {
                let number = field.pack_one_that_fits(number);
                if field.width() > 0 {
                    put(&mut packed.bytes, start + usize::from(field.offset), number);
                }
            }
            start += row_bytes;
        }
        packed
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes that `rows` rows take.
    fn bytes_of(&self, rows: usize) -> usize {
        rows * usize::from(self.row_bytes) + LOAD_BYTES
    }

    #[inline]
    fn packed(&self, slot: usize, field: &Packing) -> u64 {
        let at = slot * usize::from(self.row_bytes) + usize::from(field.offset);
        load(&self.bytes, at) & field.mask()
    }

    /// One number of a row.
    #[inline]
    pub(crate) fn number(&self, slot: usize, field: usize) -> u64 {
        assert!(slot < self.len(), "row {slot} of {}", self.len);
        let field = &self.fields[field];
        field.unpack(self.packed(slot, field))
    }

    #[inline]
    pub(crate) fn row(&self, slot: usize) -> [u64; FIELDS] {
        assert!(slot < self.len(), "row {slot} of {}", self.len);
        let field = |field: &Packing| field.unpack(self.packed(slot, field));
        self.fields.each_ref().map(field)
    }

    /// The rows of these slots, in order.
    pub(crate) fn rows(
        &self,
        slots: Range<usize>,
    ) -> impl ExactSizeIterator<Item = [u64; FIELDS]> + Clone {
        slots.map(|slot| self.row(slot))
    }

    /// The first row of which the first number is not below `number`; the first numbers ascend.
    ///
    /// Looks at one row of each step, and then into one step. These loads do not depend on
    /// each other, so they wait for memory together, where each step of a binary search waits
    /// for the one before.
    #[inline]
    pub(crate) fn first_not_below(&self, number: u64) -> usize {
        let field = &self.fields[0];
        let wanted = field.pack_up(number);
        let below = |slot: &usize| self.packed(*slot, field) < wanted;
        let last_of_steps = (ROWS_IN_STEP - 1..self.len()).step_by(ROWS_IN_STEP);
        let passed = last_of_steps.filter(below).count() * ROWS_IN_STEP;
        let step = passed..self.len().min(passed + ROWS_IN_STEP);
        passed + step.filter(below).count()
    }

    /// Puts a row in front of `slot`.
    pub(crate) fn insert(&mut self, slot: usize, row: &[u64; FIELDS]) {
        let len = self.len();
        assert!(slot <= len, "row {slot} of {len}");
        if len == 0 {
            *self = Rows::of([*row].into_iter(), capacity_for(1));
            return;
        }
        let packed = self.pack_wide(row, capacity_for(len + 1));
        let row_bytes = usize::from(self.row_bytes);
        let (at, end) = (slot * row_bytes, self.bytes.len());
        if self.bytes.capacity() - end < row_bytes {
            // Small steps: doubling would leave a third of all memory unused.
            self.bytes.reserve_exact((len / 16).max(4) * row_bytes);
        }
        self.bytes.fill_to(end + row_bytes);
        self.bytes.copy_within(at..end, at + row_bytes);
        self.len += 1;
        self.store(slot, &packed);
    }

    /// Replaces a row.
    pub(crate) fn set(&mut self, slot: usize, row: &[u64; FIELDS]) {
        let len = self.len();
        assert!(slot < len, "row {slot} of {len}");
        let packed = self.pack_wide(row, capacity_for(len));
        self.store(slot, &packed);
    }

    pub(crate) fn remove(&mut self, slot: usize) -> [u64; FIELDS] {
        let removed = self.row(slot);
        let row_bytes = usize::from(self.row_bytes);
        let at = slot * row_bytes;
        self.bytes.copy_within(at + row_bytes.., at);
        self.bytes.truncate(self.bytes.len() - row_bytes);
        self.len -= 1;
        removed
    }

    /// Replaces the content of `copy` by this one's, with room for about `capacity` rows.
    pub(crate) fn copy_to(&self, copy: &mut Self, capacity: usize) {
        copy.fields = self.fields;
        copy.len = self.len;
        copy.row_bytes = self.row_bytes;
        if self.fits_into(copy, capacity) {
            copy.bytes.clear();
        } else {
            copy.bytes = NodeVec::with_capacity(self.bytes_of(capacity));
        }
        copy.bytes.extend_from_slice(&self.bytes);
    }

    /// Whether a copy with room for `capacity` rows fits into the memory of `old`, and wastes
    /// little of it.
    pub(crate) fn fits_into(&self, old: &Self, capacity: usize) -> bool {
        let tolerated = SLOTS_IN_CLASS * usize::from(self.row_bytes.max(1));
        fits(old.bytes.capacity(), self.bytes_of(capacity), tolerated)
    }

    /// The packed form of a row. If it has none, all rows are packed again, with room for
    /// `capacity` of them.
    fn pack_wide(&mut self, row: &[u64; FIELDS], capacity: usize) -> [u64; FIELDS] {
        if let Some(packed) = self.pack(row) {
            return packed;
        }
        let mut fields = self.fields;
        for (field, &number) in fields.iter_mut().zip(row) {
            *field = field.widened(number);
        }
        *self = Self::packed_as(fields, self.rows(0..self.len()), capacity, 0);
        self.pack(row).expect(FITS)
    }

    /// The packed form of a row, if it has one.
    #[inline]
    fn pack(&self, row: &[u64; FIELDS]) -> Option<[u64; FIELDS]> {
        let mut packed = [0; FIELDS];
        for ((packed, field), &number) in packed.iter_mut().zip(&self.fields).zip(row) {
            *packed = field.pack(number)?;
        }
        Some(packed)
    }

    /// Stores a packed row into its slot.
    #[inline]
    fn store(&mut self, slot: usize, packed: &[u64; FIELDS]) {
        let at = slot * usize::from(self.row_bytes);
        for (field, packed) in self.fields.iter().zip(packed) {
            let at = at + usize::from(field.offset);
            let others = load(&self.bytes, at) & !field.mask();
            put(&mut self.bytes, at, others | packed);
        }
    }
}

const FITS: &str = "the packing was made for this row, too";
const ROOM_BEHIND: &str = "a word stands behind the rows";

#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect(ROOM_BEHIND))
}

#[inline]
fn put(bytes: &mut [u8], at: usize, word: u64) {
    *bytes[at..].first_chunk_mut().expect(ROOM_BEHIND) = word.to_le_bytes();
}

#[cfg(test)]
mod tests;
