//! Reading a segment from front to back: a window that moves over the file,
//! and the frame headers in it.

use std::path::PathBuf;
use std::sync::Arc;

use environment::{File, error_number};

use crate::Error;
use crate::format::{BLOCK_BYTES, FRAME_HEADER_BYTES, FrameHeader, Salt};
use crate::segment::Segment;

/// Bytes read at a time: by walkers that may stop soon.
const WINDOW_BYTES: u64 = 1 << 20;
/// The same for a walk from end to end, where the device is what takes time.
const SWEEP_BYTES: u64 = 4 << 20;

/// The system's number for a sector that a device cannot read.
pub(crate) const EIO: i32 = 5;

/// A frame header found at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundFrame {
    pub start: u64,
    pub header: FrameHeader,
    /// CRC of the header: the next frame's `previous_crc`.
    pub crc: u32,
}

impl FoundFrame {
    pub fn end(&self) -> u64 {
        self.start + self.header.frame_bytes()
    }
}

/// A window over a segment's file.
#[derive(Debug)]
pub(crate) struct FileWindow {
    file: Arc<dyn File>,
    path: PathBuf,
    segment: u32,
    salt: Salt,
    /// Nothing is read at or beyond this.
    limit: u64,
    /// How much is read at a time.
    stride: u64,
    /// Offset of the first byte in memory.
    start: u64,
    bytes: Vec<u8>,
}

impl FileWindow {
    /// Over `segment`, read through `file` (the cached or the device's view).
    pub fn new(segment: &Segment, file: Arc<dyn File>, limit: u64) -> FileWindow {
        FileWindow {
            file,
            path: segment.path.clone(),
            segment: segment.id(),
            salt: segment.header.salt,
            limit,
            stride: WINDOW_BYTES,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// The same with long reads.
    pub fn sweeping(segment: &Segment, file: Arc<dyn File>, limit: u64) -> FileWindow {
        FileWindow {
            stride: SWEEP_BYTES,
            ..FileWindow::new(segment, file, limit)
        }
    }

    /// Allows reading further than before: bytes at the old limit are fresh.
    pub fn set_limit(&mut self, limit: u64) {
        assert!(limit >= self.limit, "a log only grows");
        self.limit = limit;
    }

    /// Reads again what is read next, even if it is in memory.
    pub fn forget(&mut self) {
        self.bytes.clear();
    }

    /// `length` bytes at `offset`; `None` beyond the limit or the file's end.
    pub fn get(&mut self, offset: u64, length: usize) -> Result<Option<&[u8]>, Error> {
        if offset + length as u64 > self.limit {
            return Ok(None);
        }
        let held = self.start..self.start + self.bytes.len() as u64;
        if !held.contains(&offset) || offset + length as u64 > held.end {
            self.fill(offset, length)?;
        }
        let at = (offset - self.start) as usize;
        Ok(self.bytes.get(at..at + length))
    }

    fn fill(&mut self, offset: u64, length: usize) -> Result<(), Error> {
        let wanted = (length as u64).max(self.stride).min(self.limit - offset);
        self.start = offset;
        self.bytes.resize(wanted as usize, 0);
        let read = match self.file.read_at(&mut self.bytes, offset) {
            Err(error) if error_number(&error) == Some(EIO) => self.read_around(offset)?,
            read => read.map_err(Error::io("read", &self.path))?,
        };
        assert!(
            read <= self.bytes.len(),
            "{read} bytes read into {}",
            self.bytes.len()
        );
        self.bytes.truncate(read);
        Ok(())
    }

    /// Reads block by block: those that the device cannot read are zeros, which verify as
    /// nothing.
    fn read_around(&mut self, offset: u64) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < self.bytes.len() {
            let at = offset + filled as u64;
            let block_end = (at + 1).next_multiple_of(BLOCK_BYTES);
            let wanted = (block_end - at).min((self.bytes.len() - filled) as u64) as usize;
            let piece = &mut self.bytes[filled..filled + wanted];
            match self.file.read_at(piece, at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error_number(&error) == Some(EIO) => {
                    piece.fill(0);
                    filled += wanted;
                }
                Err(error) => return Err(Error::io("read", &self.path)(error)),
            }
        }
        Ok(filled)
    }

    /// The header of a frame of this segment at `offset`, if there is one.
    pub fn header(&mut self, offset: u64) -> Result<Option<FoundFrame>, Error> {
        let (segment, salt) = (self.segment, self.salt);
        let Some(bytes) = self.get(offset, FRAME_HEADER_BYTES)? else {
            return Ok(None);
        };
        let found = FrameHeader::decode(bytes, salt)
            .ok()
            .filter(|(header, _)| header.segment == segment);
        Ok(found.map(|(header, crc)| FoundFrame {
            start: offset,
            header,
            crc,
        }))
    }

    /// The first header that satisfies `accept` where a frame behind `offset`
    /// can start: right there, or at the next block boundary.
    pub fn header_behind(
        &mut self,
        offset: u64,
        accept: impl Fn(&FrameHeader) -> bool,
    ) -> Result<Option<FoundFrame>, Error> {
        for start in [offset, offset.next_multiple_of(BLOCK_BYTES)] {
            match self.header(start)? {
                Some(found) if accept(&found.header) => return Ok(Some(found)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The records of a frame; `None` when they reach beyond the limit.
    pub fn payload(&mut self, found: &FoundFrame) -> Result<Option<&[u8]>, Error> {
        let start = found.start + FRAME_HEADER_BYTES as u64;
        self.get(start, found.header.payload_bytes as usize)
    }

    /// Looks for a header that satisfies `accept` at any offset from `offset`
    /// on.
    pub fn search(
        &mut self,
        mut offset: u64,
        accept: impl Fn(&FrameHeader) -> bool,
    ) -> Result<Option<FoundFrame>, Error> {
        while let Some(candidate) = self.find_magic(offset)? {
            match self.header(candidate)? {
                Some(found) if accept(&found.header) => return Ok(Some(found)),
                _ => offset = candidate + 8,
            }
        }
        Ok(None)
    }

    /// The next offset that could be a header's.
    fn find_magic(&mut self, mut offset: u64) -> Result<Option<u64>, Error> {
        loop {
            let left = self.limit.saturating_sub(offset);
            if left < FRAME_HEADER_BYTES as u64 {
                return Ok(None);
            }
            let length = left.min(self.stride / 2) as usize;
            let Some(bytes) = self.get(offset, length)? else {
                return Ok(None);
            };
            match bytes.chunks_exact(8).position(FrameHeader::has_magic) {
                Some(units) => return Ok(Some(offset + 8 * units as u64)),
                None => offset += length as u64 / 8 * 8,
            }
        }
    }
}
