//! Putting records behind the last frame's, instead of into a frame of their own.
//!
//! ```text
//!   block     ...│ header │ put a │ put b │        ─►    ...│ header' │ put a │ put b │ put c │
//!             written, not promised                     the whole frame written again
//! ```
//!
//! The frame stays in one block, and is written from one page of memory, which was used just
//! before: such a write is done as a whole or not at all when the process is killed
//! (docs/assumptions.md). Bytes that were there before are written with the same values, so a
//! reader of one of its records sees no change.

use std::fmt;
use std::sync::Arc;

use super::Committer;
use crate::format::{BLOCK_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::{Appended, Body, Durability, Error, Options, Tag};

/// The last frame of a log.
#[derive(Debug, Default)]
pub(super) struct Growing {
    /// Begins with the frame's bytes.
    page: Box<Page>,
    /// `None` while the last frame has to stay as it is.
    frame: Option<GrowingFrame>,
}

/// Bytes in one page of memory.
#[repr(C, align(4096))]
struct Page([u8; BLOCK_BYTES as usize]);

/// A frame that is in the page cache and lies in one block.
#[derive(Clone, Copy, Debug)]
struct GrowingFrame {
    /// Where it starts in the active segment.
    start: u64,
    header: FrameHeader,
    /// How often the log was sealed before it was written.
    seals: u64,
}

impl Default for Page {
    fn default() -> Page {
        Page([0; BLOCK_BYTES as usize])
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Page")
    }
}

impl Growing {
    /// Something to remember frames in, if the log is written by its callers and to the page cache only.
    pub fn where_possible(options: &Options) -> Option<Growing> {
        let is_possible = options.durability == Durability::Os && options.worker.is_caller();
        is_possible.then(Growing::default)
    }

    /// The last frame will not become longer.
    pub fn forget(&mut self) {
        self.frame = None;
    }

    /// Takes note of a frame that was written: `bytes`, at `start` of the active segment.
    pub fn begin(&mut self, (start, bytes): (u64, &[u8]), header: FrameHeader, seals: u64) {
        let is_entry = header.kind == FrameKind::Group && header.tag.last > 0;
        if is_entry && is_in_one_block(start, bytes.len()) {
            self.page.0[..bytes.len()].copy_from_slice(bytes);
            self.frame = Some(GrowingFrame {
                start,
                header,
                seals,
            });
        }
    }
}

impl GrowingFrame {
    fn bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.header.payload_bytes as usize
    }

    fn end(&self) -> u64 {
        self.start + self.bytes() as u64
    }

    /// The tag with these further numbers, if they follow its own in the same entry.
    fn tag_with(&self, tag: Tag) -> Option<Tag> {
        let before = self.header.tag;
        let is_same = (before.term, before.index) == (tag.term, tag.index);
        (is_same && before.last + 1 == tag.first).then_some(Tag {
            last: tag.last,
            ..before
        })
    }
}

fn is_in_one_block(start: u64, bytes: usize) -> bool {
    start % BLOCK_BYTES + bytes as u64 <= BLOCK_BYTES
}

impl Committer {
    /// Puts the records of `body` behind those of the last frame. `index`: the open buffer. Returns
    /// the buffer that is open then, and the place of the records; `None` if they need a frame of
    /// their own.
    pub fn lengthen(
        &mut self,
        index: usize,
        tag: Tag,
        body: &Body,
    ) -> Result<(usize, Option<Appended>), Error> {
        let Some((frame, tag)) = self.frame_for(tag, body) else {
            return Ok((index, None));
        };
        let (used, frames) = self.close_buffer(index);
        self.offset += used as u64;
        let other = 1 - index;
        // With one appender there is nothing in the buffer.
        let appended = match frames {
            0 => self.write_longer(frame, tag, body)?,
            _ => None,
        };
        self.write_buffer(index, used, frames)?;
        self.grow_ahead();
        self.open_buffer(other);
        Ok((other, appended))
    }

    /// Bytes of records that the last frame can take.
    pub fn room_in_last_frame(&self) -> usize {
        let frame = self.growing.as_ref().and_then(|growing| growing.frame);
        frame.map_or(0, |frame| self.room_in(&frame))
    }

    fn room_in(&self, frame: &GrowingFrame) -> usize {
        let is_last = frame.end() == self.offset && self.extent.end == self.offset;
        let is_open = || self.shared.pool.last_frame.times() == Some(frame.seals);
        if !is_last || !is_open() {
            return 0;
        }
        let block_end = frame.start / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES;
        let end = block_end.min(self.active.ready_bytes()).min(self.reach);
        end.saturating_sub(frame.end()) as usize
    }

    /// The last frame, if it can take `body`, and its tag then.
    fn frame_for(&self, tag: Tag, body: &Body) -> Option<(GrowingFrame, Tag)> {
        let frame = self.growing.as_ref()?.frame?;
        let tag = frame.tag_with(tag)?;
        let body_bytes = body.bytes().len();
        let fits = body_bytes > 0 && body_bytes <= self.room_in(&frame);
        fits.then_some((frame, tag))
    }

    /// `None` if the frame is sealed.
    fn write_longer(
        &mut self,
        frame: GrowingFrame,
        tag: Tag,
        body: &Body,
    ) -> Result<Option<Appended>, Error> {
        self.learn_flushed()?;
        let shared = Arc::clone(&self.shared);
        let Some(_open) = shared.pool.last_frame.keep_open(frame.seals) else {
            return Ok(None);
        };
        let growing = self
            .growing
            .as_mut()
            .expect("the frame is remembered there");
        let (old_end, bytes) = (frame.bytes(), frame.bytes() + body.bytes().len());
        growing.page.0[old_end..bytes].copy_from_slice(body.bytes());
        let page = &mut growing.page.0[..bytes];
        let header = self
            .finisher
            .finish_longer(page, (frame.header, tag), &mut self.chain);
        let written = self.active.file.write_at(&[page], frame.start);
        if let Err(error) = written {
            // No flush may succeed from here on: bytes that were there before may be spoiled.
            let error = Error::io("write to", &self.active.path)(error);
            return Err(shared.progress.fail(&error));
        }
        growing.frame = Some(GrowingFrame { header, ..frame });
        self.offset = frame.start + bytes as u64;
        self.extent.end = self.offset;
        self.extent.note_longer(frame.header.tag, tag);
        self.active.set_extent(self.extent);
        shared.progress.lengthen(self.end(), bytes as u64);
        let place = |at: usize| self.active.position(frame.end() + at as u64);
        Ok(Some(Appended {
            sequence: header.sequence,
            start: self.active.position(frame.start),
            positions: body.offsets().map(place).collect(),
            end_offset: self.offset,
        }))
    }
}
