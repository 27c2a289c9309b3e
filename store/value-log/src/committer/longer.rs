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

use std::sync::Arc;

use super::Committer;
use crate::format::BLOCK_BYTES;
use crate::growing::{Growing, GrowingFrame};
use crate::{Appended, Body, Error, Tag};

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
        let frame = self.growing.as_ref().and_then(Growing::frame);
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
        let frame = self.growing.as_ref()?.frame()?;
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
        let remembered = self.growing.as_mut();
        let growing = remembered.expect("the frame is remembered there");
        let bytes = growing.with_records(&frame, body.bytes());
        let before = (frame.header, tag);
        let header = self.finisher.finish_longer(bytes, before, &mut self.chain);
        let written = self.active.file.write_at(&[bytes], frame.start);
        if let Err(error) = written {
            // No flush may succeed from here on: bytes that were there before may be spoiled.
            let error = Error::io("write to", &self.active.path)(error);
            return Err(shared.progress.fail(&error));
        }
        growing.note_longer(header);
        self.offset = frame.end() + body.bytes().len() as u64;
        self.extent.end = self.offset;
        self.extent.note_longer(frame.header.tag, tag);
        self.active.set_extent(self.extent);
        shared.progress.lengthen(self.end(), header.frame_bytes());
        let place = |at: usize| self.active.position(frame.end() + at as u64);
        Ok(Some(Appended {
            sequence: header.sequence,
            start: self.active.position(frame.start),
            positions: body.offsets().map(place).collect(),
            end_offset: self.offset,
        }))
    }
}
