//! Reading many records by their positions.
//!
//! ```text
//!   records    ┌──── a ────┐┌ b ┐ gap ┌─────── c ───────┐ ......... ┌─ d ─┐
//!   reads      └────────────────── run ─────────────────┘           └ run ┘
//!   buffer     a b gap c d                                   each payload is a part of it
//! ```
//!
//! A run is a shortcut only: if anything is wrong with it, the caller reads its
//! records one by one, and each read says how its record is.

use std::ops::Range;
use std::vec::Drain;

use bytes::Bytes;

use crate::format::RECORD_HEADER_BYTES;
use crate::hints::{self, Place, Unasked};
use crate::reader::{read_exactly, verified};
use crate::recent::Recent;
use crate::segment::Segment;
use crate::{Error, Log};

/// Reads of records into one buffer; made by [`Log::reads`].
#[derive(Debug)]
pub struct Reads<'l> {
    segments: Recent<'l>,
    buffer: ReadBuffer,
}

/// Records that were read, one after the other.
#[derive(Debug, Default)]
struct ReadBuffer {
    bytes: Vec<u8>,
    records: Vec<ReadRecord>,
}

/// A record in a buffer, verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// The appender's mark.
    pub kind: u8,
    /// Where in the buffer its payload is.
    pub payload: Range<usize>,
}

impl Log {
    /// Begins reads of several records.
    pub fn reads(&self) -> Reads<'_> {
        Reads {
            segments: Recent::new(self),
            buffer: ReadBuffer::default(),
        }
    }
}

impl Reads<'_> {
    /// Bytes in the buffer.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.bytes.len()
    }

    /// Gets memory for this many further bytes. More is taken where a run needs it.
    pub fn reserve(&mut self, bytes: usize) {
        self.buffer.bytes.reserve_exact(bytes);
    }

    /// Reads records of one segment with one read, and adds them to the buffer after it has
    /// verified each. Their positions ascend. If any record fails, nothing is added: then read
    /// them one by one.
    pub fn run(&mut self, run: &[Place]) -> Result<(), Error> {
        let (Some(&(first, _)), Some(&(last, _))) = (run.first(), run.last()) else {
            return Ok(());
        };
        assert!(
            first.segment() == last.segment() && run.is_sorted(),
            "a run ascends within one segment: {run:?}"
        );
        let log = self.segments.log;
        let segment = self.segments.get(first);
        let segment = segment.ok_or(Error::NotFound { position: first })?;
        let buffer = &mut self.buffer;
        let before = (buffer.bytes.len(), buffer.records.len());
        let read = log.in_segment(segment, last, |segment| buffer.add(segment, run));
        if read.is_err() {
            buffer.bytes.truncate(before.0);
            buffer.records.truncate(before.1);
        }
        read
    }

    /// Takes the buffer, and the records in it in the order in which they were read. Whatever
    /// part of the buffer is kept keeps all of it in memory.
    pub fn take(&mut self) -> (Bytes, Drain<'_, ReadRecord>) {
        let mut bytes = std::mem::take(&mut self.buffer.bytes);
        bytes.shrink_to_fit();
        (bytes.into(), self.buffer.records.drain(..))
    }

    /// Lets the device read these records beside each other, unless they seem to be in the page
    /// cache. They ascend.
    pub fn announce(&mut self, records: &[Place]) {
        if records.len() > 1 && !Unasked::new().are_cached(&mut self.segments, records) {
            hints::announce(&mut self.segments, records);
        }
    }

    /// Lets the processor fetch these records beside each other; they are read next.
    pub fn prefetch(&mut self, records: &[Place]) {
        hints::prefetch(&mut self.segments, records.iter().copied());
    }
}

impl ReadBuffer {
    fn add(&mut self, segment: &Segment, run: &[Place]) -> Result<(), Error> {
        let start = run[0].0.offset();
        let end = run.iter().map(|&(at, length)| at.offset() + length as u64);
        let end = end.max().unwrap_or(start);
        if end > segment.header.segment_bytes {
            let what = "a record's length reaches beyond the segment";
            return Err(Error::damaged(&segment.path, start, what));
        }
        let (had, more) = (self.bytes.len(), (end - start) as usize);
        self.bytes.resize(had + more, 0);
        read_exactly(segment, &mut self.bytes[had..], start)?;
        for &(position, length) in run {
            let at = had + (position.offset() - start) as usize;
            let record = &self.bytes[at..at + length];
            let header = verified(segment, position.offset(), record)?;
            let payload = at + RECORD_HEADER_BYTES;
            self.records.push(ReadRecord {
                kind: header.kind,
                payload: payload..payload + header.payload_bytes,
            });
        }
        Ok(())
    }
}
