//! Reading one record by its position, also a damaged one. `reads.rs` has reads of many.

use bytes::{Buf, Bytes};

use crate::format::RECORD_HEADER_BYTES;
use crate::record::{self, RecordHeader};
use crate::segment::Segment;
use crate::{Error, Log, Position, Record, RecordBuffer, SegmentKind, Suspect};

/// Read at first when the length is not known.
const FIRST_READ_BYTES: usize = 512;
/// Records up to this length are looked at on the stack.
const LOOKED_AT_BYTES_MAX: usize = 1024;

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
        let found = self.shared.segments.get(position.segment());
        let segment = found.ok_or(Error::NotFound { position })?;
        self.in_segment(&segment, position, read)
    }

    /// Calls `read` with the segment of a record at `position`, unless the log does not reach that
    /// far; the result counts only if the segment was not released in between.
    pub(crate) fn in_segment<T>(
        &self,
        segment: &Segment,
        position: Position,
        read: impl FnOnce(&Segment) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let not_found = Error::NotFound { position };
        if segment.header.kind == SegmentKind::Log && position >= self.shared.progress.end() {
            return Err(not_found);
        }
        let result = read(segment);
        // Only now is it known that the bytes were this segment's.
        match segment.is_released() {
            true => Err(not_found),
            false => result,
        }
    }
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
pub(crate) fn verified(
    segment: &Segment,
    offset: u64,
    bytes: &[u8],
) -> Result<RecordHeader, Error> {
    let damaged = |what: &str| Error::damaged(&segment.path, offset, what);
    let header = RecordHeader::decode(bytes).ok_or_else(|| damaged("no record fits here"))?;
    match header.verify(bytes) {
        Some(_) => Ok(header),
        None => Err(damaged("the record's checksum does not match")),
    }
}

pub(crate) fn read_exactly(segment: &Segment, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
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
