//! The last frame of a log, while it may become longer (docs/decisions/0041-longer-last-frames.md).

use std::fmt;

use crate::format::{BLOCK_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::{Durability, Options, Tag};

/// The last frame of a log.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    /// Begins with the frame's bytes.
    page: Box<FramePage>,
    /// `None` while the last frame has to stay as it is.
    frame: Option<GrowingFrame>,
}

/// Bytes in one page of memory.
#[repr(C, align(4096))]
struct FramePage([u8; BLOCK_BYTES as usize]);

/// A frame that is in the page cache and lies in one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrowingFrame {
    /// Where it starts in the active segment.
    pub start: u64,
    pub header: FrameHeader,
    /// How often the log was sealed before it was written.
    pub seals: u64,
}

impl Default for FramePage {
    fn default() -> FramePage {
        FramePage([0; BLOCK_BYTES as usize])
    }
}

impl fmt::Debug for FramePage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FramePage")
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

    /// The last frame, if it may become longer.
    pub fn frame(&self) -> Option<GrowingFrame> {
        self.frame
    }

    /// The bytes of that frame with more records behind them, under the header that it has now.
    pub fn with_records(&mut self, frame: &GrowingFrame, records: &[u8]) -> &mut [u8] {
        let (old_end, end) = (frame.bytes(), frame.bytes() + records.len());
        self.page.0[old_end..end].copy_from_slice(records);
        &mut self.page.0[..end]
    }

    /// Takes note that the frame was written again, with this header.
    pub fn note_longer(&mut self, header: FrameHeader) {
        if let Some(frame) = &mut self.frame {
            frame.header = header;
        }
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
    pub fn bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.header.payload_bytes as usize
    }

    pub fn end(&self) -> u64 {
        self.start + self.bytes() as u64
    }

    /// The tag with these further numbers, if they follow its own in the same entry.
    pub fn tag_with(&self, tag: Tag) -> Option<Tag> {
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
