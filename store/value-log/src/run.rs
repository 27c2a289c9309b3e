//! Reading several records of one segment with one read.
//!
//! ```text
//!   records    ┌──── a ────┐┌ b ┐ gap ┌─────── c ───────┐
//!   one read   └─────────────────────────────────────────┘   each payload is a slice of it
//! ```
//!
//! A run is a shortcut only: if anything is wrong with it, the caller reads its
//! records one by one, and each read says how its record is.

use bytes::Bytes;

use crate::format::RECORD_HEADER_BYTES;
use crate::reader::{read_exactly, verified};
use crate::segment::Segment;
use crate::shared::Shared;
use crate::{Error, Position, RecordBuffer};

impl Shared {
    /// Reads and verifies the records at `run`, each with its length, which
    /// ascend within one segment.
    pub fn read_run(&self, run: &[(Position, usize)]) -> Result<Vec<RecordBuffer>, Error> {
        let (Some(&(first, _)), Some(&(last, _))) = (run.first(), run.last()) else {
            return Ok(Vec::new());
        };
        assert!(
            first.segment() == last.segment() && run.is_sorted(),
            "a run ascends within one segment: {run:?}"
        );
        self.in_segment_of(last, |segment| read_in(segment, run))
    }
}

fn read_in(segment: &Segment, run: &[(Position, usize)]) -> Result<Vec<RecordBuffer>, Error> {
    let start = run[0].0.offset();
    let end = run.iter().map(|&(at, length)| at.offset() + length as u64);
    let end = end.max().unwrap_or(start);
    if end > segment.header.segment_bytes {
        let what = "a record's length reaches beyond the segment";
        return Err(Error::damaged(&segment.path, start, what));
    }
    let mut bytes = vec![0; (end - start) as usize];
    read_exactly(segment, &mut bytes, start)?;
    let bytes = Bytes::from(bytes);
    let record = |&(position, length): &(Position, usize)| {
        let at = (position.offset() - start) as usize;
        let header = verified(segment, position.offset(), &bytes[at..at + length])?;
        let payload = at + RECORD_HEADER_BYTES;
        Ok(RecordBuffer {
            kind: header.kind,
            payload: bytes.slice(payload..payload + header.payload_bytes),
        })
    };
    run.iter().map(record).collect()
}
