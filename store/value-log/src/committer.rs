//! The flush thread: the only writer of the log.
//!
//! ```text
//!   wait for work ─► seal the open buffer ─► open the other one behind it
//!        ▲               ─► wait for its producers ─► finish headers
//!        └── publish ◄── one durable write ◄──────────┘
//! ```
//!
//! There is no timer: the buffer is sealed as soon as this thread is free, and
//! what arrives during the write is written by the next turn. Two buffers suffice: while
//! one is written the other fills, and when that is full the device is the
//! bottleneck and producers wait.
//!
//! A turn that has more to do than write the buffer (a large frame, another
//! segment, the end) keeps both buffers closed until it is done, so that the
//! position of the next frame is known.

mod longer;
mod orders;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::{BLOCK_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind, SEAL_NOTE_START};
use crate::frame::{Chain, Finisher, empty_frame};
use crate::growing::Growing;
use crate::ledger::{UNIT_BYTES, Want, gap_before, would_fit};
use crate::log_state::{Control, LargeFrame, LogState, NO_BUFFER, Rotation};
use crate::position::end_of;
use crate::segment::{Extent, Segment};
use crate::segment_pool::wanted_bytes;
use crate::{Blocks, Durability, Error, Position, Seal, Sequence};

/// The flush thread's state. A log has one: it alone opens and drains the buffers.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<LogState>,
    /// The segment that is being written.
    active: Arc<Segment>,
    /// End of what is laid out: all before is written or in the open buffer.
    offset: u64,
    /// End of what is done, and the tags in it.
    extent: Extent,
    /// What its reach note says on stable storage: no frame ends beyond this.
    reach: u64,
    /// Bytes of it that the pool was asked to make ready.
    wanted_bytes: u64,
    chain: Chain,
    finisher: Finisher,
    /// The last frame; `None` where none becomes longer.
    growing: Option<Growing>,
}

/// What is to be done beside writing the open buffer.
#[derive(Debug)]
struct Orders {
    wanted: Option<Want>,
    large: Vec<LargeFrame>,
    /// Rotations to answer, when there are any, and the room that they want.
    rotations: Option<(u64, Rotation)>,
    closing: bool,
}

impl Committer {
    /// A committer that continues in `active` behind `extent`; `reach` is what its note is
    /// known to say on stable storage, 0 when that is not known.
    pub fn new(
        shared: Arc<LogState>,
        active: Arc<Segment>,
        (extent, reach): (Extent, u64),
        chain: Chain,
    ) -> Committer {
        let offset = extent.end;
        let growing = Growing::where_possible(&shared.options);
        Committer {
            shared,
            active,
            offset,
            extent,
            reach,
            wanted_bytes: 0,
            chain,
            finisher: Finisher::default(),
            growing,
        }
    }

    /// Writes and flushes the frame that every opening starts with, entering
    /// the next segment when this one has no room for it. The frame overwrites what a torn write
    /// may have left, so it is in this segment where there is room.
    pub fn write_opening(&mut self) -> Result<(), Error> {
        let frame = empty_frame(FrameKind::Opening);
        if !self.fits(frame.len()) {
            let want = frame_want(frame.len());
            if self.end_in_segment(want).is_none() {
                self.enter_next()?;
            }
            let end = self.end_in_segment(want).expect("a new segment has room");
            self.shared.pool.grow_for_opening(&self.active, end)?;
        }
        self.write_alone(frame, Durability::Durable)?;
        self.chain.synced_up_to = self.end();
        if self.is_slow() && self.can_enter_next() {
            self.enter_next()?;
        }
        self.shared.pool.check_running()
    }

    /// Each group is going to be flushed, and the segment was begun by an opening that flushed
    /// none.
    fn is_slow(&self) -> bool {
        let wanted = self.shared.options.durability.blocks();
        (wanted, self.active.header.blocks) == (Blocks::Written, Blocks::Reserved)
    }

    /// Lets producers in, and returns the buffer that they fill. The opening
    /// frame has been written.
    pub fn begin(&mut self) -> usize {
        self.open_buffer(0);
        0
    }

    /// Body of the flush thread.
    pub fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _latch = PanicLatch(&shared);
        self.shared.doorbell.attach();
        let mut index = self.begin();
        loop {
            self.wait_for_work(index);
            match self.turn(index) {
                Ok(Some(next)) => index = next,
                Ok(None) => break,
                Err(error) => break self.fail(&error),
            }
        }
        assert_eq!(
            self.shared.open_buffer.load(Ordering::Acquire),
            NO_BUFFER,
            "closed at the end"
        );
    }

    fn wait_for_work(&self, index: usize) {
        self.shared.doorbell.wait_until(|| self.has_work(index));
    }

    /// Whether there is anything to write or to answer.
    pub fn has_work(&self, index: usize) -> bool {
        let LogState {
            buffers, ordered, ..
        } = &*self.shared;
        buffers[index].is_used() || ordered.load(Ordering::Acquire)
    }

    /// One turn: writes the buffer that was open. Returns the one that is open now, or nothing at
    /// the end.
    pub fn turn(&mut self, index: usize) -> Result<Option<usize>, Error> {
        let orders = self.take_orders();
        let (used, frames) = self.close_buffer(index);
        self.offset += used as u64;
        self.grow_ahead();
        let other = 1 - index;
        let simple = self.is_simple(&orders);
        if simple {
            self.open_buffer_at(other, self.chain.next.0 + frames);
        }
        self.write_buffer(index, used, frames)?;
        if simple {
            return Ok(Some(other));
        }
        let closing = orders.closing;
        self.serve(orders)?;
        if closing {
            self.close()?;
            return Ok(None);
        }
        self.open_buffer(other);
        Ok(Some(other))
    }

    fn take_orders(&self) -> Orders {
        if !self.shared.ordered.swap(false, Ordering::AcqRel) {
            return Orders {
                wanted: None,
                large: Vec::new(),
                rotations: None,
                closing: false,
            };
        }
        let mut control = self.shared.control.lock();
        let rotations = control.rotations_wanted;
        let rotation = mem::take(&mut control.rotation);
        Orders {
            wanted: control.wanted.take(),
            large: mem::take(&mut control.large).into(),
            rotations: (control.rotations_done < rotations).then_some((rotations, rotation)),
            closing: control.closing,
        }
    }

    /// Whether the next buffer can be opened before this one is written.
    fn is_simple(&self, orders: &Orders) -> bool {
        let fits = orders.wanted.is_none_or(|want| self.want_fits(want));
        fits && orders.large.is_empty() && orders.rotations.is_none() && !orders.closing
    }

    /// Bytes behind the end of which the blocks are ready.
    fn room(&self) -> u64 {
        self.active.ready_bytes() - self.offset
    }

    /// Where blocks must be ready so that `want` fits into this segment; `None` if it does not
    /// fit there at all.
    fn end_in_segment(&self, want: Want) -> Option<u64> {
        let segment_bytes = self.active.header.segment_bytes;
        let room = segment_bytes - self.offset;
        let fits = would_fit(room / UNIT_BYTES as u64, self.phase(), want);
        fits.then(|| (self.offset + bytes_at_most(want)).min(segment_bytes))
    }

    /// Asks for more blocks while there are still some.
    fn grow_ahead(&mut self) {
        let wanted_bytes = wanted_bytes(&self.active.header, self.offset);
        let pool = &self.shared.pool;
        // In a log that goes on growing this also says when the next segment is wanted.
        let matters = !self.active.is_ready() || pool.parameters.keeps_growing;
        if wanted_bytes > self.wanted_bytes && matters {
            pool.grow_later(&self.active, wanted_bytes);
            self.wanted_bytes = wanted_bytes;
        }
    }

    fn phase(&self) -> u64 {
        self.offset / UNIT_BYTES as u64 % 512
    }

    fn want_fits(&self, want: Want) -> bool {
        would_fit(self.room() / UNIT_BYTES as u64, self.phase(), want)
    }

    fn fits(&self, frame_bytes: usize) -> bool {
        self.want_fits(frame_want(frame_bytes))
    }

    fn close_buffer(&self, index: usize) -> (usize, u64) {
        self.shared.open_buffer.store(NO_BUFFER, Ordering::Release);
        self.shared.buffers[index].seal()
    }

    fn open_buffer(&mut self, index: usize) {
        self.open_buffer_at(index, self.chain.next.0);
    }

    /// Opens a buffer at the present offset and wakes the producers that wait for it.
    fn open_buffer_at(&mut self, index: usize, first_sequence: u64) {
        let LogState {
            buffers,
            open_buffer,
            served,
            ..
        } = &*self.shared;
        // Read once: the pool may make more ready at any moment.
        let room = self.room();
        let base = self.base_of(room);
        // SAFETY: a log has one committer, which is borrowed here; it drains a buffer in
        // `write_buffer` only, which returns before this is called.
        unsafe { buffers[index].open(base, room, Sequence(first_sequence)) };
        open_buffer.store(index, Ordering::Release);
        let waiting = {
            let mut control = self.shared.control.lock();
            control.generation += 1;
            control.waiting
        };
        if waiting > 0 {
            served.notify_all();
        }
    }

    /// Where a buffer with `room` begins. The end of a full segment may lie beyond what a position
    /// can name; a buffer without room hands out no position.
    fn base_of(&self, room: u64) -> Position {
        match room {
            0 => self.active.position(0),
            _ => self.active.position(self.offset),
        }
    }

    /// Finishes and writes the frames of a sealed buffer.
    fn write_buffer(&mut self, index: usize, used: usize, frames: u64) -> Result<(), Error> {
        if frames == 0 {
            return Ok(());
        }
        self.learn_flushed()?;
        let shared = Arc::clone(&self.shared);
        let buffer = &shared.buffers[index];
        shared.doorbell.wait_until(|| buffer.is_committed(used));
        // SAFETY: a log has one committer, which is borrowed until `drained` has gone: it
        // neither drains nor opens a buffer until then, and no other caller does.
        let drained = unsafe { buffer.drained(used) };
        assert_eq!(
            drained.first_sequence, self.chain.next,
            "buffers follow each other"
        );
        let base = drained.base.offset();
        let (starts, last) = match shared.options.seal {
            Seal::Explicit => self.finish_explicit(drained.bytes, frames),
            Seal::WhenIdle => {
                let split = drained.split_bytes;
                let starts = self.finish_shared(drained.bytes, drained.base, split, frames);
                (starts, None)
            }
        };
        let from = base + starts as u64;
        let seals = shared.pool.last_frame.times();
        self.write(&drained.bytes[starts..], from, shared.options.durability)?;
        self.publish(from + (used - starts) as u64, frames);
        if let (Some(growing), Some((at, header)), Some(seals)) = (&mut self.growing, last, seals) {
            growing.begin((base + at as u64, &drained.bytes[at..]), header, seals);
        }
        Ok(())
    }

    /// Explicit frames follow each other, with zeros up to a block boundary
    /// where the block rule wants it. Returns where the first one starts, and the last one.
    fn finish_explicit(
        &mut self,
        bytes: &mut [u8],
        frames: u64,
    ) -> (usize, Option<(usize, FrameHeader)>) {
        let mut at = 0;
        let (mut first, mut last) = (None, None);
        for _ in 0..frames {
            at += bytes[at..]
                .iter()
                .position(|&byte| byte != 0)
                .expect("a frame follows the gap");
            first.get_or_insert(at);
            let header = self.finish(&mut bytes[at..]);
            last = Some((at, header));
            at += header.frame_bytes() as usize;
        }
        assert_eq!(at, bytes.len(), "frames fill the buffer");
        (first.expect("there is a frame"), last)
    }

    /// A shared buffer holds a frame up to the block boundary, one behind it,
    /// or both. Returns where the first one starts.
    fn finish_shared(
        &mut self,
        bytes: &mut [u8],
        base: Position,
        split: usize,
        frames: u64,
    ) -> usize {
        let boundary = (base.offset().next_multiple_of(4096) - base.offset()) as usize;
        let id = self.active.id();
        if frames == 2 {
            self.finisher
                .finish_shared(&mut bytes[..split], id, &mut self.chain);
            self.finisher
                .finish_shared(&mut bytes[boundary..], id, &mut self.chain);
            return 0;
        }
        assert_eq!(frames, 1, "a shared buffer opens at most two frames");
        let start = if bytes.len() <= boundary { 0 } else { boundary };
        self.finisher
            .finish_shared(&mut bytes[start..], id, &mut self.chain);
        start
    }

    fn finish(&mut self, bytes: &mut [u8]) -> FrameHeader {
        self.keep_last_frame();
        let header = self
            .finisher
            .finish(bytes, self.active.id(), &mut self.chain);
        self.extent.note_tag(header.tag);
        header
    }

    /// Another frame follows, or another segment.
    fn keep_last_frame(&mut self) {
        if let Some(growing) = &mut self.growing {
            growing.forget();
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64, durability: Durability) -> Result<(), Error> {
        let end = offset + bytes.len() as u64;
        assert!(
            end <= self.active.ready_bytes(),
            "a write to {end} of {:?}",
            self.active
        );
        assert!(
            offset >= SEAL_NOTE_START,
            "a write to {offset}, over the header of {:?}",
            self.active
        );
        if end > self.reach {
            self.extend_reach(end)?;
        }
        self.write_as_it_is(bytes, offset, durability)
    }

    fn write_as_it_is(
        &self,
        bytes: &[u8],
        offset: u64,
        durability: Durability,
    ) -> Result<(), Error> {
        let Segment { file, path, .. } = &*self.active;
        let progress = &self.shared.progress;
        match durability {
            Durability::Durable => {
                file.write_durable_at(&[bytes], offset)
                    .map_err(Error::io("write durably to", path))?;
                progress.flushes.fetch_add(1, Ordering::Relaxed);
            }
            Durability::Os => {
                file.write_at(&[bytes], offset)
                    .map_err(Error::io("write to", path))?;
            }
        }
        progress
            .bytes_written
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Publishes that `frames` more are done, up to `end` of the active segment.
    fn publish(&mut self, end: u64, frames: u64) {
        self.extent.end = end;
        self.active.set_extent(self.extent);
        if self.shared.options.durability == Durability::Durable {
            self.chain.synced_up_to = self.end();
        }
        let LogState { progress, .. } = &*self.shared;
        progress.groups.fetch_add(frames, Ordering::Relaxed);
        progress.publish(Sequence(self.chain.next.0 - 1), self.end());
    }

    /// Where what is done ends.
    fn end(&self) -> Position {
        end_of(self.active.id(), self.extent.end)
    }

    /// Writes one frame that fits, behind everything else.
    fn write_alone(
        &mut self,
        mut frame: Vec<u8>,
        durability: Durability,
    ) -> Result<Position, Error> {
        let units = (frame.len() / UNIT_BYTES) as u64;
        self.offset += gap_before(self.phase(), units) * UNIT_BYTES as u64;
        let start = self.offset;
        self.finish(&mut frame);
        self.write(&frame, start, durability)?;
        self.offset += frame.len() as u64;
        self.publish(self.offset, 1);
        Ok(self.active.position(start))
    }

    /// Latches the failure and wakes all waiting producers with it.
    pub fn fail(&self, error: &Error) {
        let LogState {
            open_buffer,
            buffers,
            progress,
            served,
            ..
        } = &*self.shared;
        let index = open_buffer.swap(NO_BUFFER, Ordering::AcqRel);
        progress.fail(error);
        if index != NO_BUFFER {
            let _ = buffers[index].seal();
        }
        // The lock orders this with producers that are about to wait.
        let control: &mut Control = &mut self.shared.control.lock();
        control.generation += 1;
        control.large.clear();
        served.notify_all();
    }
}

/// The want of a frame of `frame_bytes`.
fn frame_want(frame_bytes: usize) -> Want {
    Want::Frame((frame_bytes / UNIT_BYTES) as u64)
}

/// Bytes that a want takes at most: with a header, and a gap up to the next block.
fn bytes_at_most(want: Want) -> u64 {
    let (Want::Frame(units) | Want::Records(units)) = want;
    units * UNIT_BYTES as u64 + FRAME_HEADER_BYTES as u64 + BLOCK_BYTES
}

/// Latches a failure when the writing thread panics, so that no thread waits for it.
pub(crate) struct PanicLatch<'a>(pub &'a LogState);

impl Drop for PanicLatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "the thread that writes the log has panicked".into();
            self.0.progress.fail(&Error::Misuse { what });
            self.0.control.lock().generation += 1;
            self.0.served.notify_all();
        }
    }
}
