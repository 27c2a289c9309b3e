//! Groups of records, as they go into the log and come out.

use bytes::Bytes;

use crate::record;
use crate::{Body, Position, Record, Sequence, Suspect, Tag};

/// Where an append went. Nothing is promised before its sequence is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The group frame that holds the records.
    pub sequence: Sequence,
    /// A place in that frame, its start when the group is one of its own:
    /// [`crate::Log::groups`] from here begins with it.
    pub start: Position,
    /// One per record, in order. They lie one behind the other.
    pub positions: Vec<Position>,
    /// Where the last record ends in its segment.
    pub end_offset: u64,
}

impl Appended {
    /// Bytes of each record in the log, its header and its zeros included.
    pub fn record_bytes(&self) -> impl Iterator<Item = u64> {
        let starts = self.positions.iter().map(|position| position.offset());
        let ends = starts.clone().skip(1).chain([self.end_offset]);
        starts.zip(ends).map(|(start, end)| end - start)
    }

    /// Forgets all but the first `records` of the records.
    pub fn truncate(&mut self, records: usize) {
        if let Some(next) = self.positions.get(records) {
            self.end_offset = next.offset();
            self.positions.truncate(records);
        }
    }
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
    /// The same with other payloads of the same lengths for some records.
    pub fn body_with(&self, mended: &[(usize, Vec<u8>)]) -> Body {
        let mut bytes = self.body.to_vec();
        for (number, payload) in mended {
            if let Some((at, was)) = self.location_of(*number) {
                let kind = self.records[*number].1;
                let parts: &[&[u8]] = &[payload];
                let record = Record { kind, parts };
                assert_eq!(was, payload.len(), "a payload keeps its length");
                record::encode(&mut bytes[at..], &record);
            }
        }
        Body::verified_before(bytes.into())
    }

    /// What is left of a record that fails its checksum.
    pub fn suspect(&self, number: usize) -> Option<Suspect> {
        let (at, payload_bytes) = self.location_of(number)?;
        let end = at + record::record_bytes(payload_bytes);
        Some(Suspect::new(self.body.get(at..end)?.to_vec()))
    }

    /// Where a record lies in the body, and the bytes of its payload.
    fn location_of(&self, number: usize) -> Option<(usize, usize)> {
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
