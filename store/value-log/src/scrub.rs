//! Verifying sealed segments in small steps, as their device holds them.
//!
//! ```text
//!   segment 3        segment 4           segment 5 (written)
//!   ├f─┼f──┼f─┤      ├f─┼▓▓▓┼f──┤        not looked at
//!      step ► step ► step ► ...            then again from the first
//! ```
//!
//! A step reads a stretch of frames past the page cache and verifies each by its header, its
//! records' checksums and its digest. A frame that fails is read and verified once more, because
//! a record may be written again at that moment. Behind a header that fails the next sound one
//! is searched for, and everything between them counts as damaged.
//!
//! Where the page cache still has a damaged frame as it was written, [`Log::rewrite`] writes it
//! again from there.

use std::path::PathBuf;
use std::sync::Arc;

use environment::OpenMode;

use crate::format::{FRAMES_START, FrameHeader};
use crate::frame::Finisher;
use crate::log_state::LogState;
use crate::segment::Segment;
use crate::window::FileWindow;
use crate::{Error, Log, Position};

/// A step ends after the frame with which it has read this much.
const STEP_BYTES: u64 = 256 << 10;

/// A walk over all sealed segments, again and again.
#[derive(Debug)]
pub struct Scrub {
    shared: Arc<LogState>,
    finisher: Finisher,
    cursor: Option<SealedCursor>,
    /// Id of the segment that was finished last in this round; 0 before the first.
    finished: u32,
}

#[derive(Debug)]
struct SealedCursor {
    segment: Arc<Segment>,
    window: FileWindow,
    offset: u64,
    end: u64,
    /// CRC of the last header; `None` at the start and behind damage.
    last_crc: Option<u32>,
}

/// The outcome of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read and verified.
    pub bytes: u64,
    /// Stretches that failed their checksum.
    pub damaged: Vec<DamagedStretch>,
    /// Every sealed segment has been looked at since the last round ended.
    pub round_over: bool,
}

/// Bytes of a sealed segment that fail their checksums: a frame, or what lies between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedStretch {
    /// The segment's file.
    pub file: PathBuf,
    /// The first byte.
    pub start: Position,
    /// Offset of the byte behind the last.
    pub end: u64,
}

impl Log {
    /// Begins to verify the sealed segments, from the oldest on.
    pub fn scrub(&self) -> Scrub {
        Scrub {
            shared: Arc::clone(&self.shared),
            finisher: Finisher::default(),
            cursor: None,
            finished: 0,
        }
    }

    /// Writes a damaged frame again, durably, if the page cache has it sound. The segment must
    /// not be released during the call.
    pub fn rewrite(&self, stretch: &DamagedStretch) -> Result<bool, Error> {
        let (id, start) = (stretch.start.segment(), stretch.start.offset());
        let Some(segment) = self.shared.segments.get(id) else {
            return Ok(false);
        };
        let file = Arc::clone(&segment.file);
        let mut cached = FileWindow::new(&segment, file, stretch.end);
        let Some(found) = cached.header_behind(start, |_| true)? else {
            return Ok(false);
        };
        let payload = cached.payload(&found)?;
        let is_sound =
            payload.is_some_and(|payload| Finisher::default().verify(&found.header, payload));
        let length = (found.end() - found.start) as usize;
        if !is_sound || found.end() != stretch.end {
            return Ok(false);
        }
        let Some(frame) = cached.get(found.start, length)? else {
            return Ok(false);
        };
        segment
            .file
            .write_durable_at(&[frame], found.start)
            .map_err(Error::io("write", &segment.path))?;
        Ok(true)
    }
}

impl Scrub {
    /// Verifies the next frames. After an error that segment is passed over.
    pub fn step(&mut self) -> Result<Scrubbed, Error> {
        let mut scrubbed = Scrubbed::default();
        let Some(mut cursor) = self.take_cursor()? else {
            self.finished = 0;
            scrubbed.round_over = true;
            return Ok(scrubbed);
        };
        self.finished = cursor.segment.id();
        let begin = cursor.offset;
        while cursor.offset < cursor.end && cursor.offset - begin < STEP_BYTES {
            let start = cursor.offset;
            let is_sound = cursor.pass_frame(&mut self.finisher)?;
            assert!(cursor.offset > start, "a step goes on");
            if !is_sound {
                scrubbed.damaged.push(cursor.stretch(start));
            }
        }
        if cursor.segment.is_released() {
            return Ok(Scrubbed::default());
        }
        scrubbed.bytes = cursor.offset - begin;
        self.cursor = (cursor.offset < cursor.end).then_some(cursor);
        Ok(scrubbed)
    }

    /// Where it stopped, or the beginning of the next sealed segment.
    fn take_cursor(&mut self) -> Result<Option<SealedCursor>, Error> {
        if let Some(cursor) = self.cursor.take() {
            return Ok(Some(cursor));
        }
        let sealed = |segment: &Arc<Segment>| segment.extent().sealed;
        let segments = self.shared.segments.all().into_iter();
        let mut later = segments.filter(|segment| segment.id() > self.finished && sealed(segment));
        let Some(segment) = later.next() else {
            return Ok(None);
        };
        self.finished = segment.id();
        Ok(Some(SealedCursor::new(&self.shared, segment)?))
    }
}

impl SealedCursor {
    fn new(shared: &LogState, segment: Arc<Segment>) -> Result<SealedCursor, Error> {
        let disk = &shared.pool.parameters.disk;
        let file = disk
            .open(&segment.path, OpenMode::ReadDevice)
            .map_err(Error::io("open", &segment.path))?;
        let end = segment.extent().end;
        let window = FileWindow::new(&segment, file, end);
        Ok(SealedCursor {
            segment,
            window,
            offset: FRAMES_START,
            end,
            last_crc: None,
        })
    }

    /// Goes behind the next frame; false if it is damaged.
    fn pass_frame(&mut self, finisher: &mut Finisher) -> Result<bool, Error> {
        let (start, last_crc) = (self.offset, self.last_crc);
        if self.verify(finisher)? {
            return Ok(true);
        }
        (self.offset, self.last_crc) = (start, last_crc);
        self.window.forget();
        self.verify(finisher)
    }

    fn verify(&mut self, finisher: &mut Finisher) -> Result<bool, Error> {
        // A frame may begin at the next block. That it follows the last one shows that no
        // damaged one lies between.
        let last_crc = self.last_crc.take();
        let follows = |header: &FrameHeader| last_crc.is_none_or(|it| header.previous_crc == it);
        let Some(found) = self.window.header_behind(self.offset, follows)? else {
            let next = self.window.search(self.offset + 8, |_| true)?;
            self.offset = next.map_or(self.end, |found| found.start);
            return Ok(false);
        };
        self.last_crc = Some(found.crc);
        self.offset = found.end().min(self.end);
        let payload = self.window.payload(&found)?;
        Ok(payload.is_some_and(|payload| finisher.verify(&found.header, payload)))
    }

    fn stretch(&self, start: u64) -> DamagedStretch {
        DamagedStretch {
            file: self.segment.path.clone(),
            start: self.segment.position(start),
            end: self.offset,
        }
    }
}
