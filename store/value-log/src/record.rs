//! One record: 12 bytes of header, payload, padding to 8.
//!
//! The CRC comes first so that everything it covers (length, kind, payload)
//! lies behind it in one piece and one call checks it. A record verifies
//! alone; that it belongs to its frame is what the frame's digest says.

use bytes::Bytes;

use crate::format::{RECORD_HEADER_BYTES, crc32c, get_u32, put_u32};

const KIND_AT: usize = 8;

/// A record to append. Its payload is the concatenation of `parts`.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The appender's own mark.
    pub kind: u8,
    /// The payload, in pieces.
    pub parts: &'a [&'a [u8]],
}

impl Record<'_> {
    pub(crate) fn payload_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// One record, read back and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordBuffer {
    /// The appender's mark.
    pub kind: u8,
    /// The payload.
    pub payload: Bytes,
}

/// Bytes a record takes in a frame, header and padding included.
pub(crate) fn record_bytes(payload_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(8)
}

/// Bytes of `records` within a frame.
pub(crate) fn records_bytes(records: &[Record<'_>]) -> usize {
    records
        .iter()
        .map(|it| record_bytes(it.payload_bytes()))
        .sum()
}

/// Writes `record` at the start of `target`; returns the bytes it took.
pub(crate) fn encode(target: &mut [u8], record: &Record<'_>) -> usize {
    let mut end = RECORD_HEADER_BYTES;
    for part in record.parts {
        target[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let payload_bytes =
        u32::try_from(end - RECORD_HEADER_BYTES).expect("checked against the segment's size");
    put_u32(target, 4, payload_bytes);
    target[KIND_AT..RECORD_HEADER_BYTES].copy_from_slice(&[record.kind, 0, 0, 0]);
    let crc = crc32c(&target[4..end]);
    put_u32(target, 0, crc);
    let padded = end.next_multiple_of(8);
    target[end..padded].fill(0);
    padded
}

/// A record header, not verified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub crc: u32,
    pub payload_bytes: usize,
    pub kind: u8,
}

impl RecordHeader {
    /// Reads the header at the start of `bytes`; `None` when they are too few.
    pub fn decode(bytes: &[u8]) -> Option<RecordHeader> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES)?;
        Some(RecordHeader {
            crc: get_u32(bytes, 0),
            payload_bytes: get_u32(bytes, 4) as usize,
            kind: bytes[KIND_AT],
        })
    }

    /// Bytes of the whole record.
    pub fn record_bytes(&self) -> usize {
        record_bytes(self.payload_bytes)
    }

    /// The payload, when `bytes` (from the record's start) verify.
    pub fn verify<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let covered = bytes.get(4..RECORD_HEADER_BYTES + self.payload_bytes)?;
        (crc32c(covered) == self.crc).then(|| &covered[RECORD_HEADER_BYTES - 4..])
    }
}

/// Walks the records of a frame's payload: offset in the payload, header,
/// and the bytes from the record's start on. Stops where a record would
/// reach beyond the payload.
pub(crate) fn walk(payload: &[u8]) -> impl Iterator<Item = (usize, RecordHeader, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = payload.get(at..)?;
        let header = RecordHeader::decode(bytes)?;
        let here = bytes.get(..header.record_bytes())?;
        let start = at;
        at += here.len();
        Some((start, header, here))
    })
}

/// The records of a frame's payload: offset, kind and payload of each.
pub(crate) fn split(body: &Bytes) -> impl Iterator<Item = (usize, u8, Bytes)> {
    walk(body).map(|(at, header, _)| {
        let start = at + RECORD_HEADER_BYTES;
        (
            at,
            header.kind,
            body.slice(start..start + header.payload_bytes),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_verifies_alone_and_any_flipped_bit_is_noticed() {
        let record = Record {
            kind: 7,
            parts: &[b"ab", b"", b"cde"],
        };
        let mut bytes = [0xAA; 64];
        assert_eq!(encode(&mut bytes, &record), 24);
        let header = RecordHeader::decode(&bytes).unwrap();
        assert_eq!(
            (header.kind, header.verify(&bytes)),
            (7, Some(&b"abcde"[..]))
        );
        for bit in 0..8 * (RECORD_HEADER_BYTES + 5) {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let header = RecordHeader::decode(&flipped).unwrap();
            assert_eq!(header.verify(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn a_walk_stops_at_a_record_that_reaches_beyond_its_frame() {
        let mut bytes = [0; 48];
        let used = encode(
            &mut bytes,
            &Record {
                kind: 1,
                parts: &[b"abc"],
            },
        );
        encode(
            &mut bytes[used..],
            &Record {
                kind: 2,
                parts: &[b"0123456789"],
            },
        );
        assert_eq!(walk(&bytes[..40]).count(), 2);
        assert_eq!(walk(&bytes[..32]).count(), 1);
    }
}
