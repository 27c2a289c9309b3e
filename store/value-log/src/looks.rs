//! Looks at many records by their positions, for a caller that keeps none of them.
//!
//! ```text
//!   the file in memory   ... │ record │ ...        verified and looked at where it is
//!   memory of the looks      │ record │            a copy, where the file must be read first
//! ```

use crate::format::{FRAMES_START, RECORD_HEADER_BYTES};
use crate::hints::{self, PAGES_BYTES_MIN, Place, Unasked};
use crate::reader::{read_exactly, verified};
use crate::recent::Recent;
use crate::segment::Segment;
use crate::{Error, Log, SegmentKind};

/// A longer record is copied: the device reads it in one piece then, where each page of it that has left
/// the page cache would be read by itself.
const LENT_BYTES_MAX: usize = 32 << 10;

/// Looks at records; made by [`Log::looks`].
#[derive(Debug)]
pub struct Looks<'l> {
    segments: Recent<'l>,
    unasked: Unasked,
    /// For records that are copied.
    memory: Vec<u8>,
}

impl Log {
    /// Begins looks at several records.
    pub fn looks(&self) -> Looks<'_> {
        Looks {
            segments: Recent::pinned(self),
            unasked: Unasked::new(),
            memory: Vec::new(),
        }
    }

    /// Whether the reader that asked last whether a record is in the page cache heard that it is; false before the first
    /// answer. Lists with a record of more than 8 KiB do not count.
    pub fn seems_cached(&self) -> bool {
        self.shared.answers.seem_cached()
    }

    /// Looks at records that are seldom read: they are announced to the device also where all that others read was
    /// in the page cache.
    pub fn looks_at_seldom_read(&self) -> Looks<'_> {
        Looks {
            unasked: Unasked::of_seldom_read(),
            ..self.looks()
        }
    }
}

impl Looks<'_> {
    /// Verifies a record and calls `look` with its kind and payload.
    pub fn at<T>(
        &mut self,
        (position, record_bytes): Place,
        look: impl FnOnce(u8, &[u8]) -> T,
    ) -> Result<T, Error> {
        let log = self.segments.log;
        let not_found = Error::NotFound { position };
        let Some(segment) = self.segments.get(position) else {
            return Err(not_found);
        };
        let (offset, end) = (position.offset(), log.shared.progress.end());
        if segment.header.kind == SegmentKind::Log && position >= end {
            return Err(not_found);
        }
        let behind = offset.saturating_add(record_bytes as u64);
        let is_written = match segment.id() == end.segment() {
            true => behind <= end.offset(),
            false => behind <= segment.header.segment_bytes,
        };
        if record_bytes < RECORD_HEADER_BYTES || offset < FRAMES_START || !is_written {
            let what = "no record of this length fits here";
            return Err(Error::damaged(&segment.path, offset, what));
        }
        let lent = segment.file.lend(offset, record_bytes);
        let bytes = match lent.filter(|_| record_bytes <= LENT_BYTES_MAX) {
            // SAFETY: these bytes are in front of the log's end, or in a segment that nothing is appended
            // to. They stay as they are until their segment is released, but for a record that fails its
            // checksum and is written again (`Log::mend`), which is not shown before it verifies;
            // and a released file is not overwritten as long as the segment is pinned.
            Some(lent) => unsafe { lent.bytes() },
            None => copy(segment, offset, record_bytes, &mut self.memory)?,
        };
        let header = verified(segment, offset, bytes)?;
        let payload = &bytes[RECORD_HEADER_BYTES..][..header.payload_bytes];
        Ok(look(header.kind, payload))
    }

    /// Lets the device read these records beside each other, unless they seem to be in the page cache. Returns whether
    /// it has to.
    pub fn announce(&mut self, records: &[Place]) -> bool {
        // One of these is read at once by the look at it: by a page fault, or by a copy.
        let is_one_read = match records {
            [(_, bytes)] => !(PAGES_BYTES_MIN..=LENT_BYTES_MAX).contains(bytes),
            _ => false,
        };
        match is_one_read {
            true => !self.unasked.are_cached(&mut self.segments, records),
            false => self.announce_ahead(records),
        }
    }

    /// [`Looks::announce`] for records that are looked at later, so that the device reads a single one beside
    /// other looks, too.
    pub fn announce_ahead(&mut self, records: &[Place]) -> bool {
        let must_read = !self.unasked.are_cached(&mut self.segments, records);
        if must_read {
            let mut ascending = records.to_vec();
            ascending.sort_unstable();
            hints::announce(&mut self.segments, &ascending);
        }
        must_read
    }

    /// Lets the processor fetch the beginnings of these records beside each other; they are looked
    /// at next.
    pub fn prefetch(&mut self, records: impl Iterator<Item = Place>) {
        hints::prefetch(&mut self.segments, records);
    }

    /// Lets the processor fetch the rest of a record beside a look at the one before it.
    pub fn prefetch_rest(&mut self, record: Place) {
        hints::prefetch_rest(&mut self.segments, record);
    }

    /// Unpins all segments until the next look.
    pub fn pause(&mut self) {
        self.segments.clear();
    }
}

fn copy<'m>(
    segment: &Segment,
    offset: u64,
    bytes: usize,
    memory: &'m mut Vec<u8>,
) -> Result<&'m [u8], Error> {
    if memory.len() < bytes {
        memory.resize(bytes, 0);
    }
    read_exactly(segment, &mut memory[..bytes], offset)?;
    Ok(&memory[..bytes])
}
