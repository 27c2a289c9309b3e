//! Reading records by their positions: one, a run of several with one read, or a damaged one.
//!
//! ```text
//!   records    ┌──── a ────┐┌ b ┐ gap ┌─────── c ───────┐
//!   one read   └─────────────────────────────────────────┘   each payload is a part of it
//! ```
//!
//! A run is a shortcut only: if anything is wrong with it, the caller reads its
//! records one by one, and each read says how its record is.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::format::RECORD_HEADER_BYTES;
use crate::log_state::LogState;
use crate::record::{self, RecordHeader};
use crate::segment::Segment;
use crate::{Error, Log, Position, Record, RecordBuffer, SegmentKind, Suspect};

/// Read at first when the length is not known.
const FIRST_READ_BYTES: usize = 512;
/// Of so many records one is asked for whether it is cached.
const CACHED_ASKED_STEP: usize = 32;
/// The device reads so much faster than it begins another read.
const GAP_READ_BYTES_MAX: u64 = 16 << 10;
/// The processor fetches by itself what follows.
const PREFETCHED_BYTES_MAX: u64 = 512;
/// Records up to this length are looked at on the stack.
const LOOKED_AT_BYTES_MAX: usize = 1024;

/// The bytes of some reads, one behind the other, and the records in them.
#[derive(Debug, Default)]
pub struct ReadBuffer {
    /// A record that is kept keeps all of these in memory.
    pub bytes: Vec<u8>,
    /// In the order in which they were read.
    pub records: Vec<ReadRecord>,
}

/// A record in a [`ReadBuffer`], verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// The appender's mark.
    pub kind: u8,
    /// Where in the buffer its payload is.
    pub payload: Range<usize>,
}

/// Segments of records that ascend: each is looked up once.
struct Segments<'l> {
    log: &'l Log,
    last: Option<(u32, Option<Arc<Segment>>)>,
}

impl Segments<'_> {
    fn of(log: &Log) -> Segments<'_> {
        Segments { log, last: None }
    }

    /// Calls `hint` with a record's segment, offset and bytes, unless the segment is gone or
    /// the record reaches beyond it.
    fn at<T>(
        &mut self,
        (position, bytes): (Position, usize),
        hint: impl FnOnce(&Segment, u64, u64) -> T,
    ) -> Option<T> {
        let id = position.segment();
        if self.last.as_ref().is_none_or(|(last, _)| *last != id) {
            self.last = Some((id, self.log.shared.segments.get(id)));
        }
        let segment = self.last.as_ref()?.1.as_ref()?;
        let (offset, bytes) = (position.offset(), bytes as u64);
        let is_within = offset + bytes <= segment.header.segment_bytes;
        is_within.then(|| hint(segment, offset, bytes))
    }
}

/// Reads of records by their positions take no lock over I/O.
impl Log {
    /// Reads one record and verifies it. With `length_hint` at least
    /// [`Log::record_bytes`] of its payload this is one read; 0 means unknown.
    pub fn read(&self, position: Position, length_hint: usize) -> Result<RecordBuffer, Error> {
        self.in_segment_of(position, |segment| {
            read_in(segment, position.offset(), length_hint)
        })
    }

    /// Reads one record and gives `look` its kind and payload, for callers that do not keep
    /// them. A record of up to 1 KiB that `length_hint` covers needs no allocation.
    pub fn look_at<T>(
        &self,
        position: Position,
        length_hint: usize,
        look: impl FnOnce(u8, &[u8]) -> T,
    ) -> Result<T, Error> {
        self.in_segment_of(position, |segment| {
            look_in(segment, position.offset(), length_hint, look)
        })
    }

    /// Reads records of one segment with one read, and adds them to `buffer` after it has
    /// verified each. The positions ascend; each comes with the [`Log::record_bytes`] of its
    /// payload, or more. If any record fails, nothing is added: then read them one by one.
    pub fn read_run(
        &self,
        run: &[(Position, usize)],
        buffer: &mut ReadBuffer,
    ) -> Result<(), Error> {
        let (Some(&(first, _)), Some(&(last, _))) = (run.first(), run.last()) else {
            return Ok(());
        };
        assert!(
            first.segment() == last.segment() && run.is_sorted(),
            "a run ascends within one segment: {run:?}"
        );
        let before = (buffer.bytes.len(), buffer.records.len());
        let read = self.in_segment_of(last, |segment| read_run_in(segment, run, buffer));
        if read.is_err() {
            buffer.bytes.truncate(before.0);
            buffer.records.truncate(before.1);
        }
        read
    }

    /// Lets the device read these records beside each other, if some of them are not in the
    /// page cache. They ascend; does not wait for any.
    pub fn read_ahead(&self, records: &[(Position, usize)]) {
        let is_cached = |segment: &Segment, offset, _| segment.file.is_cached(offset);
        let mut some = records.iter().step_by(CACHED_ASKED_STEP);
        let mut segments = Segments::of(self);
        if !some.all(|&record| segments.at(record, is_cached).unwrap_or(true)) {
            let read = |segment: &Segment, offset, bytes| segment.file.read_ahead(offset, bytes);
            for run in with_small_gaps(records) {
                segments.at(run, read);
            }
        }
    }

    /// Lets the processor fetch the beginning of these records, which will be read at once. They
    /// ascend.
    pub fn prefetch(&self, records: &[(Position, usize)]) {
        let fetch = |segment: &Segment, offset, bytes: u64| {
            let bytes = bytes.min(PREFETCHED_BYTES_MAX) as usize;
            segment.file.prefetch(offset, bytes);
        };
        let mut segments = Segments::of(self);
        for &record in records {
            segments.at(record, fetch);
        }
    }

    /// The bytes at the place of a record that fails its checksum.
    pub fn suspect(&self, position: Position, record_bytes: usize) -> Result<Suspect, Error> {
        assert!(record_bytes >= RECORD_HEADER_BYTES, "a record has a header");
        self.in_segment_of(position, |segment| {
            let mut bytes = vec![0; record_bytes];
            read_exactly(segment, &mut bytes, position.offset())?;
            Ok(Suspect::new(bytes))
        })
    }

    /// Writes the record at `position` once more, durably, where it fails its checksum, and
    /// reads it back. False: it is sound. The record takes as many bytes as the one that was
    /// written there. Its segment must not be released during the call.
    pub fn mend(&self, position: Position, record: &Record<'_>) -> Result<bool, Error> {
        let mut whole = vec![0; record::record_bytes(record.payload_bytes())];
        record::encode(&mut whole, record);
        self.in_segment_of(position, |segment| {
            let offset = position.offset();
            let mut now = vec![0; whole.len()];
            let is_sound = match read_exactly(segment, &mut now, offset) {
                Ok(()) => verified(segment, offset, &now).is_ok(),
                // A sector that cannot be read may still be written.
                Err(_) => false,
            };
            if is_sound {
                return Ok(false);
            }
            segment
                .file
                .write_durable_at(&[&whole], offset)
                .map_err(Error::io("write", &segment.path))?;
            read_exactly(segment, &mut now, offset)?;
            verified(segment, offset, &now)?;
            Ok(true)
        })
    }

    /// What `read` finds in the segment of a record at `position`.
    fn in_segment_of<T>(
        &self,
        position: Position,
        read: impl FnOnce(&Segment) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let not_found = || Error::NotFound { position };
        let LogState {
            segments, progress, ..
        } = &*self.shared;
        let segment = segments.get(position.segment()).ok_or_else(not_found)?;
        if segment.header.kind == SegmentKind::Log && position >= progress.end() {
            return Err(not_found());
        }
        let result = read(&segment);
        // Only now is it known that the bytes were this segment's.
        if segment.is_released() {
            Err(not_found())
        } else {
            result
        }
    }
}

/// Place and bytes of what is read at once of records that ascend.
fn with_small_gaps(records: &[(Position, usize)]) -> impl Iterator<Item = (Position, usize)> {
    let end = |&(start, bytes): &(Position, usize)| start.offset() + bytes as u64;
    let lie_together = move |one: &_, next: &(Position, usize)| {
        let (start, next) = (end(one), next.0);
        one.0.segment() == next.segment() && next.offset() <= start + GAP_READ_BYTES_MAX
    };
    records.chunk_by(lie_together).map(move |run| {
        let (start, last) = (run[0].0, &run[run.len() - 1]);
        (start, (end(last) - start.offset()) as usize)
    })
}

fn look_in<T>(
    segment: &Segment,
    offset: u64,
    length_hint: usize,
    look: impl FnOnce(u8, &[u8]) -> T,
) -> Result<T, Error> {
    let room = segment.header.segment_bytes.saturating_sub(offset);
    let mut buffer = [0; LOOKED_AT_BYTES_MAX];
    let fits = length_hint >= RECORD_HEADER_BYTES && length_hint as u64 <= room;
    if fits && let Some(bytes) = buffer.get_mut(..length_hint) {
        read_exactly(segment, bytes, offset)?;
        let end = |header: RecordHeader| RECORD_HEADER_BYTES + header.payload_bytes;
        if RecordHeader::decode(bytes).is_some_and(|header| end(header) <= length_hint) {
            let header = verified(segment, offset, bytes)?;
            return Ok(look(header.kind, &bytes[RECORD_HEADER_BYTES..end(header)]));
        }
    }
    let record = read_in(segment, offset, length_hint)?;
    Ok(look(record.kind, &record.payload))
}

fn read_in(segment: &Segment, offset: u64, length_hint: usize) -> Result<RecordBuffer, Error> {
    let hint = if length_hint == 0 {
        FIRST_READ_BYTES
    } else {
        length_hint.max(RECORD_HEADER_BYTES)
    };
    let room = segment.header.segment_bytes.saturating_sub(offset);
    let mut bytes = vec![0; room.min(hint as u64) as usize];
    read_exactly(segment, &mut bytes, offset)?;
    let damaged = |what: &str| Error::damaged(&segment.path, offset, what);
    let header = RecordHeader::decode(&bytes).ok_or_else(|| damaged("no record fits here"))?;
    let length = RECORD_HEADER_BYTES + header.payload_bytes;
    if length as u64 > room {
        return Err(damaged("the record's length reaches beyond the segment"));
    }
    let had = bytes.len();
    if length > had {
        bytes.resize(length, 0);
        read_exactly(segment, &mut bytes[had..], offset + had as u64)?;
    }
    verified(segment, offset, &bytes)?;
    bytes.truncate(length);
    let mut payload = Bytes::from(bytes);
    payload.advance(RECORD_HEADER_BYTES);
    Ok(RecordBuffer {
        kind: header.kind,
        payload,
    })
}

/// The header of the record that `bytes`, read at `offset`, begin with.
fn verified(segment: &Segment, offset: u64, bytes: &[u8]) -> Result<RecordHeader, Error> {
    let damaged = |what: &str| Error::damaged(&segment.path, offset, what);
    let header = RecordHeader::decode(bytes).ok_or_else(|| damaged("no record fits here"))?;
    match header.verify(bytes) {
        Some(_) => Ok(header),
        None => Err(damaged("the record's checksum does not match")),
    }
}

fn read_exactly(segment: &Segment, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
    let read = segment
        .file
        .read_at(bytes, offset)
        .map_err(Error::io("read", &segment.path))?;
    if read < bytes.len() {
        return Err(Error::damaged(
            &segment.path,
            offset + read as u64,
            "the file is cut short",
        ));
    }
    Ok(())
}

fn read_run_in(
    segment: &Segment,
    run: &[(Position, usize)],
    buffer: &mut ReadBuffer,
) -> Result<(), Error> {
    let start = run[0].0.offset();
    let end = run.iter().map(|&(at, length)| at.offset() + length as u64);
    let end = end.max().unwrap_or(start);
    if end > segment.header.segment_bytes {
        let what = "a record's length reaches beyond the segment";
        return Err(Error::damaged(&segment.path, start, what));
    }
    let had = buffer.bytes.len();
    buffer.bytes.resize(had + (end - start) as usize, 0);
    read_exactly(segment, &mut buffer.bytes[had..], start)?;
    for &(position, length) in run {
        let at = had + (position.offset() - start) as usize;
        let header = verified(segment, position.offset(), &buffer.bytes[at..at + length])?;
        let payload = at + RECORD_HEADER_BYTES;
        buffer.records.push(ReadRecord {
            kind: header.kind,
            payload: payload..payload + header.payload_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_segment_are_read_at_once_if_little_is_between_them() {
        let gap = GAP_READ_BYTES_MAX;
        let places = [
            (1, 4096),
            (1, 4192),
            (1, 4288 + gap),
            (1, 4392 + 2 * gap),
            (2, 4488 + 2 * gap),
        ];
        let records = places.map(|(segment, offset)| (Position::new(segment, offset), 96));
        let read: Vec<_> = with_small_gaps(&records).collect();
        let expected = [(records[0].0, 288 + gap as usize), records[3], records[4]];
        assert_eq!(read, expected);
        assert_eq!(with_small_gaps(&[]).count(), 0);
    }
}
