//! What goes into the log and what comes out: records, groups and their tags.

use bytes::Bytes;

use crate::record;
use crate::suspect::Suspect;
use crate::{Body, Position, Sequence};

/// The appender's own numbers, kept in the frame header; opaque to the log.
/// 0 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tag {
    /// Term of the entry.
    pub term: u64,
    /// Index of the entry.
    pub index: u64,
    /// First number the group covers.
    pub first: u64,
    /// Last number the group covers.
    pub last: u64,
}

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

/// Where an append went. Nothing is promised before its sequence is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The group frame that holds the records.
    pub sequence: Sequence,
    /// A place in that frame, its start when the group is one of its own:
    /// [`crate::Log::groups`] from here begins with it.
    pub start: Position,
    /// One per record, in order.
    pub positions: Vec<Position>,
}

/// A group as recovery shows it: borrowed, verified.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The appender's numbers.
    pub tag: Tag,
    /// The frame's number.
    pub sequence: Sequence,
    /// Where the frame starts.
    pub start: Position,
    /// Where the frame ends.
    pub end: Position,
    /// Position, kind and payload of each record.
    pub records: Vec<(Position, u8, &'a [u8])>,
    /// Which of the records fail their checksums; none but where
    /// [`crate::Options::shows_damaged_groups`] allows it.
    pub damaged: Vec<usize>,
    pub(crate) body: &'a [u8],
}

impl Group<'_> {
    /// A copy of its records, as they were encoded.
    pub fn body(&self) -> Body {
        Body::trusted(Bytes::copy_from_slice(self.body))
    }

    /// The same with other payloads of the same lengths for some records.
    pub fn body_with(&self, mended: &[(usize, Vec<u8>)]) -> Body {
        let mut bytes = self.body.to_vec();
        for (number, payload) in mended {
            if let Some((at, was)) = self.place_of(*number) {
                let kind = self.records[*number].1;
                let parts: &[&[u8]] = &[payload];
                let record = Record { kind, parts };
                assert_eq!(was, payload.len(), "a payload keeps its length");
                record::encode(&mut bytes[at..], &record);
            }
        }
        Body::trusted(bytes.into())
    }

    /// What is left of a record that fails its checksum.
    pub fn suspect(&self, number: usize) -> Option<Suspect> {
        let (at, payload_bytes) = self.place_of(number)?;
        let end = at + record::record_bytes(payload_bytes);
        Some(Suspect::new(self.body.get(at..end)?.to_vec()))
    }

    /// Where a record lies in the body, and the bytes of its payload.
    fn place_of(&self, number: usize) -> Option<(usize, usize)> {
        let (position, _, payload) = self.records.get(number)?;
        let (first, ..) = self.records.first()?;
        let at = position.offset() - first.offset();
        Some((at as usize, payload.len()))
    }
}

/// A group that owns its bytes; the payloads share one allocation.
#[derive(Clone, Debug)]
pub struct GroupBuffer {
    /// The appender's numbers.
    pub tag: Tag,
    /// The frame's number.
    pub sequence: Sequence,
    /// Where the frame starts.
    pub start: Position,
    /// Where the frame ends.
    pub end: Position,
    /// Position, kind and payload of each record.
    pub records: Vec<(Position, u8, Bytes)>,
    /// All records as they were encoded.
    pub body: Body,
}

/// One record, read back and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordBuffer {
    /// The appender's mark.
    pub kind: u8,
    /// The payload.
    pub payload: Bytes,
}
