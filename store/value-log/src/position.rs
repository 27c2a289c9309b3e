//! Where a record is, and the number of the group it came in.
//!
//! ```text
//!   47            24 23             0
//!  ┌────────────────┬────────────────┐
//!  │ segment id     │ offset / 8     │      48 bits, so that an index entry
//!  └────────────────┴────────────────┘      has 16 bits left for a size class
//! ```
//!
//! Segment ids start at 1 and are never used twice, so a position names one
//! record for ever and 0 names none. Records are 8-byte aligned: 24 bits of
//! offset reach through 128 MiB.

use std::fmt;

/// Records, frames and segments are aligned to this.
pub(crate) const ALIGNMENT: u64 = 8;
const OFFSET_BITS: u32 = 24;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// Highest segment id that a position can name.
pub const SEGMENT_MAX: u32 = (1 << 24) - 1;

/// The place of a record: segment and offset in 48 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

impl Position {
    /// No record: segments are numbered from 1.
    pub const NONE: Position = Position(0);

    /// The place `offset` bytes into `segment`.
    ///
    /// # Panics
    /// When `offset` is not a multiple of 8 or one of the two is too large:
    /// a position is made by the log, never from input.
    pub fn new(segment: u32, offset: u64) -> Position {
        assert!(segment <= SEGMENT_MAX, "segment {segment} exceeds 24 bits");
        assert!(
            offset.is_multiple_of(ALIGNMENT),
            "offset {offset} is not aligned"
        );
        let units = offset / ALIGNMENT;
        assert!(units <= OFFSET_MASK, "offset {offset} exceeds 128 MiB");
        Position(u64::from(segment) << OFFSET_BITS | units)
    }

    /// The segment's id.
    pub fn segment(self) -> u32 {
        (self.0 >> OFFSET_BITS) as u32
    }

    /// Bytes from the start of the segment's file.
    pub fn offset(self) -> u64 {
        (self.0 & OFFSET_MASK) * ALIGNMENT
    }

    /// The 48 bits, for an index entry.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The reverse of [`Position::to_bits`]; higher bits are dropped.
    pub fn from_bits(bits: u64) -> Position {
        Position(bits & (u64::from(SEGMENT_MAX) << OFFSET_BITS | OFFSET_MASK))
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}:{}", self.segment(), self.offset())
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// The number of a group frame: 1 for the first ever, then one more each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The place behind `end` bytes of a segment, as a bound: the end of a full
/// segment of the largest size exceeds 24 bits and is the next one's start.
pub(crate) fn end_of(segment: u32, end: u64) -> Position {
    if end == crate::SEGMENT_BYTES_MAX {
        Position::new(segment + 1, 0)
    } else {
        Position::new(segment, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_keeps_segment_and_offset_through_its_bits() {
        for (segment, offset) in [(1, 0), (1, 4096), (SEGMENT_MAX, (128 << 20) - 8)] {
            let position = Position::from_bits(Position::new(segment, offset).to_bits());
            assert_eq!((position.segment(), position.offset()), (segment, offset));
            assert!(position.to_bits() < 1 << 48);
        }
    }

    #[test]
    fn positions_order_by_segment_then_offset() {
        assert!(Position::new(2, 8) > Position::new(1, 1 << 20));
        assert!(Position::new(2, 8) < Position::new(2, 16));
        assert!(Position::NONE < Position::new(1, 0));
    }
}
