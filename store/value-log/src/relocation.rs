//! Bulk writing into sorted segments: survivors of reclaim, snapshots.
//!
//! A sorted segment has the log's frames and records but is no part of the
//! log: it is written front to back into a spare, flushed, and only then
//! gets its name. A file without that name after a crash does not count.

use std::sync::Arc;

use crate::format::{FRAME_HEADER_BYTES, FRAMES_START, SEAL_NOTE_START, SealNote};
use crate::frame::{Chain, Finisher};
use crate::log_state::LogState;
use crate::record;
use crate::release::release;
use crate::segment::{Segment, SpareFile};
use crate::segment_pool::SortedRoom;
use crate::{Blocks, Error, Position, Record, Sequence, Tag};

/// Records are gathered into frames of this size.
const FRAME_BYTES: usize = 256 << 10;

/// Writes sorted segments. Dropped unfinished, it leaves nothing behind, and
/// after a failure it can only be dropped.
#[derive(Debug)]
pub struct Relocation {
    shared: Arc<LogState>,
    open: Option<OpenSegment>,
    /// Complete segments, in use already.
    finished: Vec<u32>,
    /// The first failure: records may be missing, so nothing is added or finished after it.
    failure: Option<Error>,
    /// How much disk space new files may take.
    room: SortedRoom,
    done: bool,
}

#[derive(Debug)]
struct OpenSegment {
    /// The spare file that it still is.
    spare: SpareFile,
    segment: Segment,
    /// Where `frame` will be written.
    offset: u64,
    /// Frames before this offset are stable.
    flushed: u64,
    /// The frame that fills: room for the header, then records.
    frame: Vec<u8>,
    chain: Chain,
    finisher: Finisher,
}

impl Relocation {
    pub(crate) fn new(shared: Arc<LogState>, room: SortedRoom) -> Relocation {
        Relocation {
            shared,
            open: None,
            finished: Vec::new(),
            failure: None,
            room,
            done: false,
        }
    }

    /// Adds a record; it can be read there after [`Relocation::complete`].
    pub fn append(&mut self, record: Record<'_>) -> Result<Position, Error> {
        let bytes = record::record_bytes(record.payload_bytes());
        let limit_bytes = self.shared.pool.segment_bytes() - FRAMES_START;
        if (FRAME_HEADER_BYTES + bytes) as u64 > limit_bytes {
            return Err(Error::TooLarge {
                bytes: bytes as u64,
                limit_bytes,
            });
        }
        self.unless_failed(|it| it.add(&record, bytes))
    }

    /// Makes everything stable and readable that was added. Dropped after this,
    /// it still leaves nothing behind.
    pub fn complete(&mut self) -> Result<(), Error> {
        self.unless_failed(Relocation::complete_segment)
    }

    /// Makes everything stable and readable; returns the segments' ids.
    pub fn finish(mut self) -> Result<Vec<u32>, Error> {
        self.complete()?;
        self.done = true;
        Ok(std::mem::take(&mut self.finished))
    }

    /// Keeps the failure of a step.
    fn unless_failed<T>(
        &mut self,
        step: impl FnOnce(&mut Relocation) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        step(self).inspect_err(|error| self.failure = Some(error.clone()))
    }

    fn add(&mut self, record: &Record<'_>, bytes: usize) -> Result<Position, Error> {
        if self.open.as_ref().is_some_and(|open| !open.has_room(bytes)) {
            self.complete_segment()?;
        }
        if self.open.is_none() {
            let (spare, segment) = self.shared.pool.begin_sorted(self.room)?;
            self.open = Some(OpenSegment::new(spare, segment));
        }
        let open = self.open.as_mut().expect("it was opened just now");
        let position = open.append(record, bytes)?;
        open.flush_piece(self.shared.pool.piece_bytes())?;
        Ok(position)
    }

    fn complete_segment(&mut self) -> Result<(), Error> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.seal()?;
        // From here on the pool owns the file, even if naming it fails.
        let open = self.open.take().expect("it was there just now");
        self.shared.pool.finish_sorted(open.spare, &open.segment)?;
        self.finished.push(open.segment.id());
        self.shared.segments.insert(Arc::new(open.segment));
        Ok(())
    }
}

impl Drop for Relocation {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if let Some(open) = self.open.take() {
            // While a segment is open, only a write or flush of it can have failed.
            match self.failure {
                Some(_) => self.shared.pool.discard(open.spare),
                None => self.shared.pool.put_back(&[open.spare]),
            }
        }
        // No caller has their ids. Those that cannot be released now stay, whole and
        // unreferenced.
        let _ = release(&self.shared.segments, &self.shared.pool, &self.finished);
    }
}

impl OpenSegment {
    fn new(spare: SpareFile, segment: Segment) -> OpenSegment {
        let chain = Chain {
            salt: segment.header.salt,
            epoch: segment.header.epoch,
            next: Sequence(1),
            previous_crc: 0,
            synced_up_to: Position::NONE,
        };
        let finisher = Finisher::default();
        OpenSegment {
            spare,
            segment,
            offset: FRAMES_START,
            flushed: FRAMES_START,
            frame: Vec::new(),
            chain,
            finisher,
        }
    }

    fn has_room(&self, record_bytes: usize) -> bool {
        let frame = self.frame.len().max(FRAME_HEADER_BYTES);
        // A frame that is full is written first and costs another header.
        let needed = frame + record_bytes + FRAME_HEADER_BYTES;
        self.offset + needed as u64 <= self.segment.header.segment_bytes
            || (self.frame.is_empty() && self.offset == FRAMES_START)
    }

    fn append(&mut self, record: &Record<'_>, bytes: usize) -> Result<Position, Error> {
        if !self.frame.is_empty() && self.frame.len() + bytes > FRAME_BYTES {
            self.write_frame()?;
        }
        if self.frame.is_empty() {
            self.frame.resize(FRAME_HEADER_BYTES, 0);
        }
        let at = self.frame.len();
        assert!(
            at.is_multiple_of(8) && at >= FRAME_HEADER_BYTES,
            "a record at {at} of a frame"
        );
        self.frame.resize(at + bytes, 0);
        record::encode(&mut self.frame[at..], record);
        Ok(self.segment.position(self.offset + at as u64))
    }

    fn write_frame(&mut self) -> Result<(), Error> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.finisher
            .finish_shared(&mut self.frame, self.segment.id(), &mut self.chain);
        let Segment { file, path, .. } = &self.segment;
        file.write_at(&[&self.frame], self.offset)
            .map_err(Error::io("write to", path))?;
        self.offset += self.frame.len() as u64;
        assert!(
            self.offset <= self.segment.header.segment_bytes,
            "{:?} is overfull",
            self.segment
        );
        self.frame.clear();
        Ok(())
    }

    /// Flushes what was written, if that is as much as a piece.
    fn flush_piece(&mut self, piece_bytes: u64) -> Result<(), Error> {
        if self.offset - self.flushed < piece_bytes {
            return Ok(());
        }
        let Segment { file, path, .. } = &self.segment;
        file.sync_data().map_err(Error::io("flush", path))?;
        self.flushed = self.offset;
        Ok(())
    }

    /// Frees the blocks behind the end, of which there are none that were written. The size stays
    /// that of a segment.
    fn give_room_back(&self) -> Result<(), Error> {
        let Segment {
            header, file, path, ..
        } = &self.segment;
        if header.blocks == Blocks::Written {
            return Ok(());
        }
        for size in [self.offset, header.segment_bytes] {
            file.set_size(size)
                .map_err(Error::io("set the size of", path))?;
        }
        Ok(())
    }

    /// Writes the rest and the seal note, and flushes it all.
    fn seal(&mut self) -> Result<(), Error> {
        self.write_frame()?;
        let note = SealNote {
            segment: self.segment.id(),
            end: self.offset,
            sequence: Sequence(self.chain.next.0 - 1),
            first_tag: Tag::default(),
            last_tag: Tag::default(),
        };
        let Segment { file, path, .. } = &self.segment;
        file.write_at(&[&note.encode()], SEAL_NOTE_START)
            .map_err(Error::io("seal", path))?;
        self.give_room_back()?;
        file.sync_data().map_err(Error::io("flush", path))?;
        let mut extent = self.segment.extent();
        extent.end = self.offset;
        extent.sealed = true;
        self.segment.set_extent(extent);
        Ok(())
    }
}
