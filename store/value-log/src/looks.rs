//! Looks at many records by their positions, for a caller that keeps none of them.
//!
//! ```text
//!   the file in memory   ... │ record │ ...        verified and looked at where it is
//!   memory of the looks      │ record │            a copy, where the system has it not there yet
//! ```

use crate::format::RECORD_HEADER_BYTES;
use crate::hints::{self, Place};
use crate::reader::{read_exactly, verified};
use crate::recent::Recent;
use crate::segment::Segment;
use crate::{Error, Log, SegmentKind};

/// A single record of more bytes lies in several pages, for each of which a look would wait.
const ONE_WAIT_BYTES_MAX: usize = 8 << 10;

/// Looks at records; made by [`Log::looks`].
#[derive(Debug)]
pub struct Looks<'l> {
    segments: Recent<'l>,
    /// For records that are copied.
    memory: Vec<u8>,
}

impl Log {
    /// Begins looks at several records.
    pub fn looks(&self) -> Looks<'_> {
        Looks {
            segments: Recent::new(self),
            memory: Vec::new(),
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
        let is_of_the_log = segment.header.kind == SegmentKind::Log;
        if is_of_the_log && position >= log.shared.progress.end() {
            return Err(not_found);
        }
        let offset = position.offset();
        let bytes = match segment.file.lend(offset, record_bytes) {
            // SAFETY: the bytes of a record stay as they are until its segment is released, and a
            // file is not overwritten then as long as the segment is pinned.
            Some(lent) => unsafe { lent.bytes() },
            None => copy(segment, offset, record_bytes, &mut self.memory)?,
        };
        let header = verified(segment, offset, bytes)?;
        let payload = &bytes[RECORD_HEADER_BYTES..][..header.payload_bytes];
        Ok(look(header.kind, payload))
    }

    /// Lets the device read these records beside each other, and the pages of a long one, unless
    /// they seem to be in the page cache.
    pub fn announce(&mut self, records: &[Place]) {
        let is_one_wait = match records {
            [] => true,
            [(_, bytes)] => *bytes <= ONE_WAIT_BYTES_MAX,
            _ => false,
        };
        if !is_one_wait && !hints::are_cached(&mut self.segments, records) {
            let mut ascending = records.to_vec();
            ascending.sort_unstable();
            hints::announce(&mut self.segments, &ascending);
        }
    }

    /// Lets the processor fetch the rest of a record beside a look at the one before it.
    pub fn prefetch_rest(&mut self, record: Place) {
        hints::prefetch_rest(&mut self.segments, record);
    }

    /// Lets the processor fetch these records beside each other; they are looked at next.
    pub fn prefetch(&mut self, records: &[Place]) {
        hints::prefetch(&mut self.segments, records);
    }

    /// Keeps no segment's file from being used again from here on, until the next look.
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
    let room = segment.header.segment_bytes.saturating_sub(offset);
    if bytes < RECORD_HEADER_BYTES || bytes as u64 > room {
        return Err(Error::damaged(&segment.path, offset, "no record fits here"));
    }
    if memory.len() < bytes {
        memory.resize(bytes, 0);
    }
    read_exactly(segment, &mut memory[..bytes], offset)?;
    Ok(&memory[..bytes])
}
