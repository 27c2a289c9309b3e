//! Entries of one block in rows of a few bytes.
//!
//! ```text
//!   0  u8 tree, u8 bits of the position, u8 of the class, u8 of the stamp
//!   4  u32 number of entries, not 0
//!   8  u64 least position, and least class in the high 16 bits
//!  16  u64 least stamp
//!  24  rows: position, class and stamp less the least ones, from the lowest bit up
//!      keys
//! ```
//!
//! A stamp is stored rotated to the left by one bit: the mark of a tombstone, its highest bit,
//! would else make all rows of its block wide.

use super::key::LastKey;
use crate::format::{u32_at, u64_at};
use ordered_index::IndexEntry;

const HEAD_BYTES: usize = 24;
const POSITION_BITS: u32 = 48;
/// Bits that a field has at most: position, class and stamp.
const BITS_MAX: [u32; 3] = [POSITION_BITS, 16, 64];
/// Bytes that a row has at most.
const ROW_BYTES_MAX: usize = 16;

/// Position, class and stamp of an entry.
type Fields = [u64; 3];

fn fields_of(entry: IndexEntry) -> Fields {
    let position = entry.value & low_bits(POSITION_BITS);
    let class = entry.value >> POSITION_BITS;
    [position, class, entry.stamp.rotate_left(1)]
}

#[inline]
fn entry_of([position, class, stamp]: Fields) -> IndexEntry {
    IndexEntry {
        value: class << POSITION_BITS | position,
        stamp: stamp.rotate_right(1),
    }
}

/// A word with this many low bits, at most 64.
fn low_bits(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
}

/// How many bits each field of a row has.
#[derive(Clone, Copy, Debug)]
struct Widths([u32; 3]);

impl Widths {
    fn row_bytes(self) -> usize {
        self.0.iter().sum::<u32>().div_ceil(8) as usize
    }
}

/// Gathers entries of a block.
#[derive(Debug)]
pub(super) struct RowsWriter {
    entries: Vec<Fields>,
    least: Fields,
    greatest: Fields,
}

impl Default for RowsWriter {
    fn default() -> RowsWriter {
        RowsWriter {
            entries: Vec::new(),
            least: [u64::MAX; 3],
            greatest: [0; 3],
        }
    }
}

impl RowsWriter {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the rows of what was pushed.
    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * self.widths().row_bytes()
    }

    pub(super) fn push(&mut self, entry: IndexEntry) {
        let fields = fields_of(entry);
        for (number, field) in fields.into_iter().enumerate() {
            self.least[number] = self.least[number].min(field);
            self.greatest[number] = self.greatest[number].max(field);
        }
        self.entries.push(fields);
    }

    /// Without entries it is zero.
    fn widths(&self) -> Widths {
        let bits = |number: usize| {
            let range = self.greatest[number].saturating_sub(self.least[number]);
            u64::BITS - range.leading_zeros()
        };
        Widths([0, 1, 2].map(bits))
    }

    /// Adds all but the keys of a block, and begins the next one.
    pub(super) fn take(&mut self, tree: usize, payload: &mut Vec<u8>) {
        let (widths, least) = (self.widths(), self.least);
        let [position_bits, class_bits, stamp_bits] = widths.0;
        payload.extend([
            tree as u8,
            position_bits as u8,
            class_bits as u8,
            stamp_bits as u8,
        ]);
        payload.extend((self.entries.len() as u32).to_le_bytes());
        payload.extend((least[1] << POSITION_BITS | least[0]).to_le_bytes());
        payload.extend(least[2].to_le_bytes());
        for fields in self.entries.drain(..) {
            let [position, class, stamp] =
                [0, 1, 2].map(|number| u128::from(fields[number] - least[number]));
            let row = position | (class | stamp << class_bits) << position_bits;
            payload.extend(&row.to_le_bytes()[..widths.row_bytes()]);
        }
        *self = RowsWriter {
            entries: std::mem::take(&mut self.entries),
            ..RowsWriter::default()
        };
    }
}

/// Where the fields of a row are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    row_bytes: usize,
    /// The lowest bit of the class, and of the stamp.
    class_at: u32,
    stamp_at: u32,
    masks: Fields,
}

impl Layout {
    fn of(widths: Widths) -> Layout {
        let [position_bits, class_bits, _] = widths.0;
        Layout {
            row_bytes: widths.row_bytes(),
            class_at: position_bits,
            stamp_at: position_bits + class_bits,
            masks: widths.0.map(low_bits),
        }
    }

    /// The fields of a row at the front of `bytes`; what follows the row does not matter.
    #[inline]
    fn fields(&self, bytes: &[u8]) -> Fields {
        let [position, class, stamp] = match bytes.first_chunk() {
            // Most rows have eight bytes or less. A shift by 64 is one of a field without bits.
            Some(word) if self.row_bytes <= 8 => {
                let row = u64::from_le_bytes(*word);
                [
                    row,
                    row.wrapping_shr(self.class_at),
                    row.wrapping_shr(self.stamp_at),
                ]
            }
            _ => self.wide(bytes),
        };
        let [position_mask, class_mask, stamp_mask] = self.masks;
        [
            position & position_mask,
            class & class_mask,
            stamp & stamp_mask,
        ]
    }

    fn wide(&self, bytes: &[u8]) -> Fields {
        let row = match bytes.first_chunk::<ROW_BYTES_MAX>() {
            Some(row) => u128::from_le_bytes(*row),
            None => {
                let mut row = [0; ROW_BYTES_MAX];
                row[..self.row_bytes].copy_from_slice(&bytes[..self.row_bytes]);
                u128::from_le_bytes(row)
            }
        };
        [0, self.class_at, self.stamp_at].map(|at| (row >> at) as u64)
    }
}

/// The entries of a block that were not read yet.
#[derive(Debug)]
pub(super) struct Packed<'p> {
    layout: Layout,
    least: Fields,
    /// The rows from the next one on, and the keys: so a row can be read with what is behind it.
    rows: &'p [u8],
    rows_left: u32,
    /// The keys from the next one on.
    keys: &'p [u8],
}

impl<'p> Packed<'p> {
    pub(super) fn of(payload: &'p [u8]) -> Result<Packed<'p>, &'static str> {
        let (head, rows) = payload
            .split_at_checked(HEAD_BYTES)
            .ok_or("a block of entries is cut off")?;
        let widths = Widths([head[1], head[2], head[3]].map(u32::from));
        let mut pairs = widths.0.iter().zip(BITS_MAX);
        if pairs.any(|(bits, most)| *bits > most) {
            return Err("a block of entries has fields that are too wide");
        }
        let (rows_left, layout) = (u32_at(head, 4), Layout::of(widths));
        let rows_bytes = (rows_left as usize).checked_mul(layout.row_bytes);
        let keys = rows_bytes.and_then(|bytes| rows.get(bytes..));
        let least = u64_at(head, 8);
        Ok(Packed {
            layout,
            least: [
                least & low_bits(POSITION_BITS),
                least >> POSITION_BITS,
                u64_at(head, 16),
            ],
            rows,
            rows_left,
            keys: keys.ok_or("a block of entries is cut off")?,
        })
    }

    /// Reads the next key and skips its row; false at the end.
    #[inline]
    pub(super) fn next_key(&mut self, key: &mut LastKey) -> Result<bool, &'static str> {
        if self.rows_left == 0 {
            return match self.keys.is_empty() {
                true => Ok(false),
                false => Err("something follows the entries of a block"),
            };
        }
        self.rows_left -= 1;
        key.take(&mut self.keys).ok_or("an entry is cut off")?;
        Ok(true)
    }

    #[inline]
    pub(super) fn next(&mut self, key: &mut LastKey) -> Result<Option<IndexEntry>, &'static str> {
        if !self.next_key(key)? {
            return Ok(None);
        }
        let more = self.layout.fields(self.rows);
        self.rows = &self.rows[self.layout.row_bytes..];
        let [position, class] = [0, 1].map(|number| self.least[number] + more[number]);
        let stamp = self.least[2].checked_add(more[2]);
        match stamp.filter(|_| position >> BITS_MAX[0] == 0 && class >> BITS_MAX[1] == 0) {
            Some(stamp) => Ok(Some(entry_of([position, class, stamp]))),
            None => Err("an entry is beyond what its fields can hold"),
        }
    }
}
