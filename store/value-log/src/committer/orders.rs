//! Serving the orders that come beside the open buffer: large frames, the next segment, the
//! end.
//!
//! No buffer is open during that work. A missing segment (a full disk) harms nothing
//! that was accepted: the producer that needs one gets an error, and the log continues
//! in the room that is left. So these functions have two kinds of errors: the inner
//! one is a refusal, the outer one ends the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Committer, Orders, frame_want};
use crate::format::{FRAMES_START, FrameKind, REACH_NOTE_START, SEAL_NOTE_START, SealNote};
use crate::frame::empty_frame;
use crate::ledger::Want;
use crate::log_state::{LogState, Rotation};
use crate::segment::{Segment, reach_for};
use crate::{Blocks, Durability, Error, Position, Sequence};

impl Committer {
    /// Serves the orders beside the open buffer. Only a failure of the log is an
    /// error here; a missing segment is an error for the producer that needs it.
    pub(super) fn serve(&mut self, orders: Orders) -> Result<(), Error> {
        for large in orders.large {
            let placed = self.place_large(large.bytes)?;
            large.placed.set(placed).expect("a frame is placed once");
        }
        if let Some(want) = orders.wanted.filter(|&want| !self.want_fits(want)) {
            // The producer finds the refusal in `control`.
            if self.make_room(want)?.is_err() {
                self.shared.control.lock().refuse(want);
            }
        }
        if let Some((turn, rotation)) = orders.rotations {
            let refused = self.rotate(rotation)?.is_err();
            self.answer_rotations(turn, refused);
        }
        Ok(())
    }

    fn answer_rotations(&self, turn: u64, refused: bool) {
        let mut control = self.shared.control.lock();
        control.rotations_done = turn;
        if refused {
            control.rotations_refused = turn;
        }
    }

    fn place_large(
        &mut self,
        frame: Vec<u8>,
    ) -> Result<Result<(Sequence, Position), Error>, Error> {
        if let Err(refusal) = self.make_room(frame_want(frame.len()))? {
            return Ok(Err(refusal));
        }
        let sequence = self.chain.next;
        let start = self.write_alone(frame, self.shared.options.durability)?;
        Ok(Ok((sequence, start)))
    }

    /// Leaves the active segment, if that is asked for and something is in it, and makes room. The
    /// next segment has as much room ready: some appender may count on it.
    fn rotate(&mut self, rotation: Rotation) -> Result<Result<(), Error>, Error> {
        if rotation.leaves_segment && self.extent.end > FRAMES_START {
            let left = self.try_enter_next(self.room())?;
            if left.is_err() {
                return Ok(left);
            }
        }
        self.make_room(rotation.room_for)
    }

    /// Makes `want` fit: in this segment, or in the next one. The inner error says why that
    /// cannot be, which leaves the log as it is; the outer one is fatal.
    fn make_room(&mut self, want: Want) -> Result<Result<(), Error>, Error> {
        while !self.want_fits(want) {
            let made = match self.end_in_segment(want) {
                Some(end) => self.try_grow(end)?,
                None => {
                    let is_new = self.extent.end == FRAMES_START;
                    assert!(!is_new, "a segment holds what was let through");
                    self.try_enter_next(0)?
                }
            };
            if made.is_err() {
                return Ok(made);
            }
        }
        Ok(Ok(()))
    }

    /// Enters the next segment, of which `room_bytes` are ready then. The errors are those of
    /// [`Committer::make_room`].
    fn try_enter_next(&mut self, room_bytes: u64) -> Result<Result<(), Error>, Error> {
        match self.wait_next_with(room_bytes) {
            Ok(next) => self.enter(next)?,
            Err(refusal) => {
                // The pool has forgotten what was wanted.
                self.wanted_bytes = 0;
                return self.note_refusal(refusal).map(Err);
            }
        }
        self.shared.control.lock().refusal = None;
        Ok(Ok(()))
    }

    /// The next segment; if it cannot have the room, the pool keeps it.
    fn wait_next_with(&self, room_bytes: u64) -> Result<Arc<Segment>, Error> {
        let next = self.wait_next()?;
        let end = (FRAMES_START + room_bytes).min(next.header.segment_bytes);
        if let Err(refusal) = self.wait_grown(&next, end) {
            self.shared.pool.give_back(next, self.active.id());
            return Err(refusal);
        }
        Ok(next)
    }

    /// Waits until the blocks before `end` are ready.
    fn try_grow(&mut self, end: u64) -> Result<Result<(), Error>, Error> {
        if let Err(refusal) = self.wait_grown(&self.active, end) {
            // The pool has forgotten what was wanted.
            self.wanted_bytes = 0;
            return self.note_refusal(refusal).map(Err);
        }
        self.shared.control.lock().refusal = None;
        Ok(Ok(()))
    }

    fn note_refusal(&self, refusal: Error) -> Result<Error, Error> {
        self.shared.pool.check_running()?;
        self.shared.control.lock().refusal = Some(refusal.clone());
        Ok(refusal)
    }

    /// Before the threads run: whether there is a next segment, or room to make one.
    pub(super) fn can_enter_next(&self) -> bool {
        let pool = &self.shared.pool;
        pool.has_next() || pool.prepare_next().is_ok()
    }

    /// The same before the threads run: this one prepares the segment itself.
    pub(super) fn enter_next(&mut self) -> Result<(), Error> {
        if !self.shared.pool.has_next() {
            self.shared.pool.prepare_next()?;
        }
        let next = self.shared.pool.take_next()?.expect("it is there");
        self.enter(next)
    }

    fn wait_next(&self) -> Result<Arc<Segment>, Error> {
        let LogState { pool, doorbell, .. } = &*self.shared;
        loop {
            if let Some(next) = pool.take_next()? {
                return Ok(next);
            }
            self.shared.make_due_segments();
            doorbell.wait_until(|| pool.has_answer());
        }
    }

    /// Waits until the blocks before `end` are ready. The pool writes zeros. Reserving blocks takes
    /// less time than the pool's thread may take for a flush, so it is done here.
    fn wait_grown(&self, segment: &Arc<Segment>, end: u64) -> Result<(), Error> {
        let LogState { pool, doorbell, .. } = &*self.shared;
        if segment.header.blocks == Blocks::Reserved {
            return pool.grow_now(segment, end);
        }
        while segment.ready_bytes() < end && !pool.has_grown(segment, end)? {
            self.shared.make_due_segments();
            doorbell.wait_until(|| pool.knows_growth(segment, end));
        }
        Ok(())
    }

    /// Seals the active segment, which is written to its end, and continues in `next`.
    fn enter(&mut self, next: Arc<Segment>) -> Result<(), Error> {
        assert_eq!(
            next.header.previous,
            self.active.id(),
            "segments are linked"
        );
        assert_eq!(
            next.header.salt, self.chain.salt,
            "a log has one salt for life"
        );
        self.keep_last_frame();
        self.extent.sealed = true;
        self.write_seal_note()?;
        self.active.set_extent(self.extent);
        self.shared.segments.insert(Arc::clone(&next));
        let left = std::mem::replace(&mut self.active, next);
        self.extent = self.active.extent();
        // The device may lack the reach note of a segment that an earlier opening prepared.
        let prepared_now = self.active.header.epoch == self.chain.epoch;
        self.reach = if prepared_now { self.active.reach } else { 0 };
        self.offset = self.extent.end;
        self.wanted_bytes = 0;
        self.shared.pool.note_entered();
        // Before the pool's thread is busy with a flush.
        self.grow_ahead();
        if self.shared.options.durability == Durability::Os {
            self.shared.pool.flush_later(left);
        }
        Ok(())
    }

    fn write_seal_note(&mut self) -> Result<(), Error> {
        let note = SealNote {
            segment: self.active.id(),
            end: self.extent.end,
            sequence: Sequence(self.chain.next.0 - 1),
            first_tag: self.extent.first_tag,
            last_tag: self.extent.last_tag,
        };
        self.write(
            &note.encode(),
            SEAL_NOTE_START,
            self.shared.options.durability,
        )
    }

    /// Notes that frames may end at `end`, before one does: recovery searches no
    /// further, so the note is stable first. With page-cache durability one note covers the
    /// whole segment: recovery searches more, but only one flush is needed.
    pub(super) fn extend_reach(&mut self, end: u64) -> Result<(), Error> {
        let header = &self.active.header;
        let wanted = match self.shared.options.durability {
            Durability::Durable => end.max(self.active.reach),
            Durability::Os => header.segment_bytes,
        };
        let note = reach_for(header, wanted, self.active.ready_bytes());
        assert!(note.reach >= end, "{note:?} does not reach {end}");
        self.write_as_it_is(&note.encode(), REACH_NOTE_START, Durability::Durable)?;
        self.reach = note.reach;
        Ok(())
    }

    /// With page-cache durability: learns how far the pool has flushed.
    pub(super) fn learn_flushed(&mut self) -> Result<(), Error> {
        if self.shared.options.durability == Durability::Os {
            let flushed = self.shared.pool.flushed()?;
            self.chain.synced_up_to = self.chain.synced_up_to.max(flushed);
        }
        Ok(())
    }

    fn sync_active(&mut self) -> Result<(), Error> {
        self.active
            .file
            .sync_data()
            .map_err(Error::io("flush", &self.active.path))?;
        self.shared.progress.flushes.fetch_add(1, Ordering::Relaxed);
        self.chain.synced_up_to = self.end();
        Ok(())
    }

    /// Marks the clean end, where the segment has room for the mark.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        if self.shared.options.durability == Durability::Os {
            let LogState { pool, doorbell, .. } = &*self.shared;
            self.shared.make_due_segments();
            doorbell.wait_until(|| pool.has_flushed_all());
            self.learn_flushed()?;
            self.sync_active()?;
        }
        let frame = empty_frame(FrameKind::Closing);
        if self.fits(frame.len()) {
            self.write_alone(frame, Durability::Durable)?;
        }
        Ok(())
    }
}
