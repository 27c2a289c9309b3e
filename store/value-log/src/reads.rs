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
use std::sync::Arc;
use std::vec::Drain;

use bytes::Bytes;

use crate::format::RECORD_HEADER_BYTES;
use crate::reader::{read_exactly, verified};
use crate::segment::Segment;
use crate::{Error, Log, Position};

/// Of this many records the first is asked for whether it is in the page cache.
const CACHE_STRIDE: usize = 64;
/// The longest gap between two records that are announced to the device together.
const ANNOUNCED_GAP_BYTES_MAX: u64 = 4 << 10;
/// The processor notices by itself that the rest of a record is read.
const PREFETCHED_BYTES_MAX: usize = 512;

/// A record's place, and the [`Log::record_bytes`] of its payload.
type Place = (Position, usize);

/// Reads of records into one buffer; made by [`Log::reads`].
#[derive(Debug)]
pub struct Reads<'l> {
    log: &'l Log,
    /// The segment that was looked up last, which is often the next one too.
    segment: Option<Arc<Segment>>,
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
            log: self,
            segment: None,
            bytes: Vec::new(),
            records: Vec::new(),
        }
    }
}

impl Reads<'_> {
    /// Bytes in the buffer.
    pub fn buffered_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Gets memory for this many further bytes. More is taken where a run needs it.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
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
        let segment = self.segment_of(first).cloned();
        let segment = segment.ok_or(Error::NotFound { position: first })?;
        let (log, before) = (self.log, (self.bytes.len(), self.records.len()));
        let read = log.in_segment(&segment, last, |segment| self.add(segment, run));
        if read.is_err() {
            self.bytes.truncate(before.0);
            self.records.truncate(before.1);
        }
        read
    }

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

    /// Takes the buffer, and the records in it in the order in which they were read. Whatever
    /// part of the buffer is kept keeps all of it in memory.
    pub fn take(&mut self) -> (Bytes, Drain<'_, ReadRecord>) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.shrink_to_fit();
        (bytes.into(), self.records.drain(..))
    }

    /// Lets the device read these records beside each other, unless they seem to be in the page
    /// cache. They ascend.
    pub fn announce(&mut self, records: &[Place]) {
        if records.len() < 2 {
            return;
        }
        let mut some = records.iter().step_by(CACHE_STRIDE);
        let is_cached = |segment: &Segment, at, _| segment.file.is_cached(at);
        if some.all(|record| self.hint(record, is_cached).unwrap_or(true)) {
            return;
        }
        for range in without_small_gaps(records) {
            self.hint(&range, |segment, offset, bytes| {
                segment.file.announce(offset, bytes as u64);
            });
        }
    }

    /// Lets the processor fetch these records beside each other; they are read next. They
    /// ascend.
    pub fn prefetch(&mut self, records: &[Place]) {
        for record in records {
            self.hint(record, |segment, offset, bytes| {
                segment
                    .file
                    .prefetch(offset, bytes.min(PREFETCHED_BYTES_MAX));
            });
        }
    }

    /// Calls `hint` with segment, offset and bytes, unless the segment is gone or does not
    /// reach that far.
    fn hint<T>(
        &mut self,
        &(position, bytes): &Place,
        hint: impl FnOnce(&Segment, u64, usize) -> T,
    ) -> Option<T> {
        let (segment, offset) = (self.segment_of(position)?, position.offset());
        let is_within = offset + bytes as u64 <= segment.header.segment_bytes;
        is_within.then(|| hint(segment, offset, bytes))
    }

    fn segment_of(&mut self, position: Position) -> Option<&Arc<Segment>> {
        let id = position.segment();
        if self
            .segment
            .as_ref()
            .is_none_or(|last| last.header.id != id)
        {
            self.segment = self.log.shared.segments.get(id);
        }
        self.segment.as_ref()
    }
}

/// Ranges of the records, those with small gaps between them as one.
fn without_small_gaps(records: &[Place]) -> impl Iterator<Item = Place> {
    let end = |&(start, bytes): &Place| start.offset() + bytes as u64;
    let lie_together = move |one: &Place, next: &Place| {
        let latest = end(one) + ANNOUNCED_GAP_BYTES_MAX;
        one.0.segment() == next.0.segment() && next.0.offset() <= latest
    };
    records.chunk_by(lie_together).map(move |range| {
        let (start, last) = (range[0].0, &range[range.len() - 1]);
        (start, (end(last) - start.offset()) as usize)
    })
}
