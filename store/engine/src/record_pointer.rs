//! Where a record lies and how long it is, in one word of the index.
//!
//! ```text
//!   63           48 47                                   0
//!   ┌──────────────┬──────────────────────────────────────┐
//!   │ size class   │ position: segment id, offset / 8     │
//!   └──────────────┴──────────────────────────────────────┘
//! ```
//!
//! The class is *exact*: records up to 256 KiB count in units of 8 bytes, and
//! larger ones are padded to a multiple of 4 KiB when they are written (1.6 %
//! at worst). So one read fetches a record, and the live-byte counters need
//! no look at the disk when a version dies.

use value_log::{Log, Position};

const POSITION_BITS: u32 = 48;
const COARSE: u64 = 1 << 15;
const FINE_BYTES: u64 = 8;
const COARSE_BYTES: u64 = 4096;
/// Longest record counted in units of 8 bytes.
const FINE_BYTES_MAX: u64 = (COARSE - 1) * FINE_BYTES;

/// Position and length of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordPointer(u64);

impl RecordPointer {
    /// A record of `record_bytes` as [`padding`] made it.
    pub(crate) fn new(position: Position, record_bytes: u64) -> RecordPointer {
        let class = class_of(record_bytes);
        assert_eq!(
            bytes_of(class),
            record_bytes,
            "a record was written without its padding"
        );
        assert!(
            position.to_bits() >> POSITION_BITS == 0,
            "position beyond 48 bits"
        );
        RecordPointer(class << POSITION_BITS | position.to_bits())
    }

    pub(crate) fn from_bits(bits: u64) -> RecordPointer {
        RecordPointer(bits)
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn position(self) -> Position {
        Position::from_bits(self.0 & ((1 << POSITION_BITS) - 1))
    }

    pub(crate) fn segment(self) -> u32 {
        self.position().segment()
    }

    /// The record's position and bytes, as reads of several records take them.
    pub(crate) fn place(self) -> (Position, usize) {
        (self.position(), self.record_bytes() as usize)
    }

    /// Whole record, header included.
    pub(crate) fn record_bytes(self) -> u64 {
        bytes_of(self.0 >> POSITION_BITS)
    }
}

/// Zero bytes to add to a payload so that its size class is exact.
pub(crate) fn padding(payload_bytes: usize) -> usize {
    let record_bytes = Log::record_bytes(payload_bytes) as u64;
    (bytes_of(class_of(record_bytes)) - record_bytes) as usize
}

/// Whether the size class of a payload of this length is exact as it is.
pub(crate) fn needs_no_padding(payload_bytes: usize) -> bool {
    let record_bytes = Log::record_bytes(payload_bytes) as u64;
    record_bytes <= FINE_BYTES_MAX || record_bytes.is_multiple_of(COARSE_BYTES)
}

fn class_of(record_bytes: u64) -> u64 {
    if record_bytes <= FINE_BYTES_MAX {
        record_bytes / FINE_BYTES
    } else {
        let class = COARSE | record_bytes.div_ceil(COARSE_BYTES);
        assert!(
            class >> 16 == 0,
            "record of {record_bytes} bytes has no size class"
        );
        class
    }
}

fn bytes_of(class: u64) -> u64 {
    if class & COARSE == 0 {
        class * FINE_BYTES
    } else {
        (class & !COARSE) * COARSE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_padded_payload_has_an_exact_class() {
        for payload in (0..300).chain(262_000..262_300).chain(1_500_000..1_500_100) {
            let record = Log::record_bytes(payload + padding(payload)) as u64;
            let pointer = RecordPointer::new(Position::new(7, 4096), record);
            assert_eq!(pointer.record_bytes(), record);
            assert_eq!(pointer.position(), Position::new(7, 4096));
        }
    }

    #[test]
    fn small_payloads_are_not_padded() {
        assert_eq!(padding(0), 0);
        assert_eq!(padding(4096), 0);
        assert!(padding(300_000) < 4096);
    }
}
