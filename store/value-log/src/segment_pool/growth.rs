//! A small log's segment, which gets its blocks in steps.
//!
//! ```text
//!   file of full size   ├── ready ────────────┤ no blocks yet
//!                       ├── frames ──┤        ▲
//!                                    └ twice ─┘
//! ```
//!
//! A new log would otherwise take three whole segments of the disk for its first put. The blocks up to
//! twice the log's end are made ready by the pool's thread, until a segment is full grown:
//! from then on segments are made whole, and ahead. Behind what is ready the file has no
//! blocks and reads as zeros. Its size never changes.
//!
//! Where blocks are only reserved, a step costs no flush, so segments go on growing while the disk
//! has much room: the next one is made ahead with its first step, and gets half of its blocks when
//! it is entered. The pool's thread may be flushing the one before for a while, so a committer that
//! needs more does not wait for that thread. On a disk that gets full segments are made whole, as in
//! other logs: deletions and reclaim then need what is ready.
//!
//! Written blocks are zeros that are stable before the reach note covers them, and zeros are
//! written behind the reach note and the last frame only: no frame that counts is overwritten.

use std::sync::Arc;

use super::{PoolParameters, SegmentPool};
use crate::format::SegmentHeader;
use crate::segment::Segment;
use crate::{Blocks, Error};

/// A step is this part of a segment.
const STEP_PART: u64 = 64;
/// A disk has much room if it has room for this many segments besides the reserve.
const MUCH_ROOM_SEGMENTS: u64 = 8;
/// A step is no smaller than this, a quarter of the smallest segment.
const STEP_BYTES_MIN: u64 = 16 << 10;

/// Bytes that are ready in a new log's first segment. Zeros are written in steps of this size,
/// each with a flush of its own: a put that waits for the file system's journal then waits
/// for few of them.
fn step_bytes(segment_bytes: u64) -> u64 {
    (segment_bytes / STEP_PART).max(STEP_BYTES_MIN)
}

/// How many bytes should be ready in a segment with frames up to `end`.
pub(crate) fn wanted_bytes(header: &SegmentHeader, end: u64) -> u64 {
    let segment_bytes = header.segment_bytes;
    let is_first = header.previous == 0;
    let least_bytes = match header.blocks {
        Blocks::Reserved if !is_first => segment_bytes / 2,
        _ => 0,
    };
    (2 * end)
        .max(least_bytes)
        .next_multiple_of(step_bytes(segment_bytes))
        .min(segment_bytes)
}

/// Takes note of the steps that an earlier opening has reserved in a segment. To reserve them once
/// more changes nothing, and says that they are there: the file system may count blocks of its own.
pub(crate) fn note_reserved(segment: &Segment) -> Result<(), Error> {
    let header = &segment.header;
    if !header.grows || header.blocks != Blocks::Reserved {
        return Ok(());
    }
    let allocated = segment.file.allocated_bytes();
    let allocated_bytes = allocated.map_err(Error::io("ask for the blocks of", &segment.path))?;
    let step = step_bytes(header.segment_bytes);
    let bytes = allocated_bytes.min(header.segment_bytes) / step * step;
    if segment.file.reserve(bytes).is_ok() {
        segment.note_ready(bytes);
    }
    Ok(())
}

/// Blocks to make ready in the segment that is being written.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Segments grow, and none is made whole.
    pub log_is_small: bool,
    /// The log has never had a whole segment. It is small, however little room the disk has.
    is_new: bool,
    /// While segments grow, the next one is made when half of the present one is wanted ready.
    makes_next_ahead: bool,
    /// The committer needs another segment now, although the present one is not full grown.
    pub wants_next: bool,
    /// The committer has taken the next segment and may give it back: no other is made.
    next_is_lent: bool,
    /// The segment, and the bytes of it that are wanted ready.
    wanted: Option<(Arc<Segment>, u64)>,
}

impl Growth {
    /// The growth of a new log.
    pub fn of_new(starts_small: bool, blocks: Blocks) -> Growth {
        Growth {
            log_is_small: starts_small,
            is_new: starts_small,
            makes_next_ahead: blocks == Blocks::Reserved,
            wants_next: false,
            next_is_lent: false,
            wanted: None,
        }
    }

    /// The growth of a log that continues in `active`. What an earlier opening has reserved is no use
    /// to one that flushes each group.
    pub fn of(active: &Segment, blocks: Blocks) -> Growth {
        let is_first = active.header.previous == 0;
        let is_of_use = active.header.blocks == blocks;
        let log_is_small = !active.is_ready() && (is_first || is_of_use);
        Growth {
            log_is_small,
            is_new: log_is_small && is_first,
            ..Growth::of_new(false, blocks)
        }
    }

    /// Decides whether segments grow. If they do not any more, the present one gets all of its
    /// blocks.
    fn set_small(&mut self, log_is_small: bool) {
        self.log_is_small = log_is_small;
        if let Some((segment, bytes)) = self.wanted.as_mut().filter(|_| !log_is_small) {
            *bytes = segment.header.segment_bytes;
        }
    }

    fn want(&mut self, segment: &Arc<Segment>, bytes: u64) {
        match &mut self.wanted {
            Some((present, wanted)) if present.id() == segment.id() => {
                *wanted = bytes.max(*wanted);
            }
            _ => self.wanted = Some((Arc::clone(segment), bytes)),
        }
    }

    /// The committer has asked for the next segment. Blocks of the one that it leaves are
    /// not wanted any more.
    pub fn note_asked(&mut self, answer: &Result<Option<Arc<Segment>>, Error>) {
        self.wants_next = matches!(answer, Ok(None));
        self.wanted = None;
        if let Ok(Some(next)) = answer {
            self.next_is_lent = true;
            self.log_is_small = !next.is_ready();
            self.is_new &= self.log_is_small;
        }
    }

    /// The segment to grow, and the bytes of it that are wanted.
    pub fn due(&self) -> Option<(Arc<Segment>, u64)> {
        let due = self.wanted.as_ref();
        let due = due.filter(|(segment, bytes)| segment.ready_bytes() < *bytes);
        due.map(|(segment, bytes)| (Arc::clone(segment), *bytes))
    }

    /// Whether the segment behind the one that is being written is wanted.
    pub fn wants_segment_behind(&self) -> bool {
        let wants = self.wants_next || !self.log_is_small || self.makes_next_now();
        wants && !self.next_is_lent
    }

    fn makes_next_now(&self) -> bool {
        let wanted = self.wanted.as_ref();
        let is_late =
            |(segment, bytes): &(Arc<Segment>, u64)| *bytes >= segment.header.segment_bytes / 2;
        self.makes_next_ahead && wanted.is_some_and(is_late)
    }
}

impl SegmentPool {
    /// Asks for `bytes` of the segment to be ready.
    pub fn grow_later(&self, segment: &Arc<Segment>, bytes: u64) {
        self.state.lock().growth.want(segment, bytes);
        self.changed.notify_all();
    }

    /// Whether `bytes` of the segment are ready; asks for them. A failure is returned once, and
    /// then it is tried again, as in [`SegmentPool::take_next`].
    pub fn has_grown(&self, segment: &Arc<Segment>, bytes: u64) -> Result<bool, Error> {
        let mut state = self.state.lock();
        state.growth.want(segment, bytes);
        let ready = (segment.ready_bytes() >= bytes).then_some(());
        let answer = self.answer(&mut state, ready);
        if answer.is_err() {
            state.growth.wanted = None;
        }
        drop(state);
        self.changed.notify_all();
        Ok(answer?.is_some())
    }

    /// Whether [`SegmentPool::has_grown`] has an answer.
    pub fn knows_growth(&self, segment: &Segment, bytes: u64) -> bool {
        segment.ready_bytes() >= bytes || self.state.lock().knows_failure()
    }

    /// Takes the next segment back, which the committer could not enter.
    pub fn give_back(&self, next: Arc<Segment>, active: u32) {
        let mut state = self.state.lock();
        state.active = active;
        state.growth.next_is_lent = false;
        state.growth.log_is_small = true;
        let before = state.next.replace(next);
        assert!(before.is_none(), "a small log has one next segment");
    }

    /// The committer has entered the segment that it took.
    pub fn note_entered(&self) {
        self.state.lock().growth.next_is_lent = false;
        self.changed.notify_all();
    }

    /// Makes blocks ready, until `bytes` of the segment are.
    pub fn grow(&self, segment: &Segment, bytes: u64) -> Result<(), Error> {
        self.grow_leaving(segment, bytes, self.parameters.reserve_bytes)
    }

    /// The same for the frame that every opening starts with: it may use the reserve.
    pub fn grow_for_opening(&self, segment: &Segment, bytes: u64) -> Result<(), Error> {
        self.grow_leaving(segment, bytes, 0)
    }

    fn grow_leaving(&self, segment: &Segment, bytes: u64, reserve_bytes: u64) -> Result<(), Error> {
        let grown = self.try_grow(segment, bytes, reserve_bytes);
        grown.map_err(|error| self.refusal(error))?;
        if segment.is_ready() {
            let mut state = self.state.lock();
            state.growth.is_new = false;
            state.growth.log_is_small &= self.parameters.keeps_growing;
        }
        self.look_at_room();
        Ok(())
    }

    /// Makes blocks ready on the caller's thread, until `bytes` of a segment with reserved blocks
    /// are. The outcome is news for the pool's thread, too.
    pub fn grow_now(&self, segment: &Segment, bytes: u64) -> Result<(), Error> {
        if segment.ready_bytes() >= bytes {
            return Ok(());
        }
        self.check_running()?;
        if self.state.lock().yields {
            return Err(self.lacks_segment());
        }
        let segment_bytes = segment.header.segment_bytes;
        let wanted_bytes = bytes.next_multiple_of(step_bytes(segment_bytes));
        let grown = self.grow(segment, wanted_bytes.min(segment_bytes));
        let mut state = self.state.lock();
        state.forget_failure();
        state.note_outcome(grown.clone());
        drop(state);
        self.changed.notify_all();
        grown
    }

    /// Decides whether segments grow, in a log in which they may.
    pub(super) fn look_at_room(&self) {
        if !self.parameters.keeps_growing {
            return;
        }
        let goes_on_growing = self.goes_on_growing();
        let growth = &mut self.state.lock().growth;
        if !growth.is_new {
            growth.set_small(goes_on_growing);
        }
    }

    fn goes_on_growing(&self) -> bool {
        let PoolParameters {
            segment_bytes,
            reserve_bytes,
            ..
        } = self.parameters;
        let can_reserve = !self.state.lock().cannot_reserve;
        can_reserve && self.has_available(reserve_bytes + MUCH_ROOM_SEGMENTS * segment_bytes)
    }

    /// To write zeros, the file is opened once more: a failed flush is reported once to each handle,
    /// and the committer must learn of one that took its frames. A failed flush ends the log where
    /// it needs more room, and with page-cache durability at its next write.
    fn try_grow(&self, segment: &Segment, bytes: u64, reserve_bytes: u64) -> Result<(), Error> {
        let file = match segment.header.blocks {
            Blocks::Written => self.open(&segment.path)?,
            Blocks::Reserved => Arc::clone(&segment.file),
        };
        let step = step_bytes(segment.header.segment_bytes);
        while segment.ready_bytes() < bytes {
            let from = segment.ready_bytes();
            let to = ((from + step) / step * step).min(bytes);
            self.check_space(to - from, reserve_bytes)?;
            match segment.header.blocks {
                Blocks::Written => {
                    self.write_zeros(&*file, &segment.path, from..to)?;
                    let flushed = file.sync_data();
                    flushed
                        .map_err(Error::io("flush", &segment.path))
                        .inspect_err(|error| self.state.lock().note_failed_flush(error))?;
                }
                // Where room cannot be reserved any more, writes meet a full disk themselves.
                Blocks::Reserved => {
                    self.reserve(&*file, &segment.path, to)?;
                }
            }
            segment.note_ready(to);
            self.parameters.doorbell.ring();
        }
        Ok(())
    }

    /// Bytes that are ready in a new file.
    pub(super) fn first_step(&self, grows: bool) -> u64 {
        let segment_bytes = self.parameters.segment_bytes;
        match grows {
            true => step_bytes(segment_bytes),
            false => segment_bytes,
        }
    }
}
