//! The state that producers, committer and readers share.
//!
//! ```text
//!   producers ──records──► buffers[0|1] ──sealed──► committer ──► device
//!        └──── orders (full, large frame, rotate, close) ──►┘
//! ```
//!
//! Lock order: `control` is taken last and held for a few instructions; no
//! I/O and no callback happens under it.

use environment::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, OnceLock, PoisonError};

use crate::buffer::Buffer;
use crate::cached::Answers;
use crate::commit_progress::CommitProgress;
use crate::doorbell::Doorbell;
use crate::format::FRAMES_START;
use crate::ledger::Want;
use crate::position::end_of;
use crate::segment::Segments;
use crate::segment_pool::SegmentPool;
use crate::work::CallerCommitter;
use crate::{Durability, Error, Options, Position, SegmentKind, Sequence};

/// No buffer is open.
pub(crate) const NO_BUFFER: usize = 2;

/// Where a frame that was too large for a buffer went.
pub(crate) type Placed = Arc<OnceLock<Result<(Sequence, Position), Error>>>;

/// A frame that its producer encoded by itself.
#[derive(Debug)]
pub(crate) struct LargeFrame {
    /// The frame with a provisional header.
    pub bytes: Vec<u8>,
    /// Filled in when it has its place (and is done).
    pub placed: Placed,
}

/// The aim of a rotation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    /// The log continues in another segment, unless nothing is in this one.
    pub leaves_segment: bool,
    /// A frame or records that fit then.
    pub room_for: Want,
}

impl Rotation {
    pub const TO_NEXT_SEGMENT: Rotation = Rotation {
        leaves_segment: true,
        room_for: Want::Records(0),
    };

    pub fn for_room(room_for: Want) -> Rotation {
        Rotation {
            leaves_segment: false,
            room_for,
        }
    }
}

impl Default for Rotation {
    fn default() -> Rotation {
        Rotation::for_room(Want::Records(0))
    }
}

/// Orders of producers to the committer, beside writing the open buffer.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Counts the openings of buffers.
    pub generation: u64,
    /// Threads that wait to be served: without any the committer saves itself
    /// the system call.
    pub waiting: usize,
    /// The largest want that found the buffer or the segment full.
    pub wanted: Option<Want>,
    pub large: VecDeque<LargeFrame>,
    /// Rotations asked for.
    pub rotations_wanted: u64,
    /// The aim of the unanswered ones together.
    pub rotation: Rotation,
    /// Rotations answered, refused ones included.
    pub rotations_done: u64,
    /// The newest of those that were refused.
    pub rotations_refused: u64,
    pub closing: bool,
    /// Why there was no further segment when one was last needed; cleared when
    /// one is entered.
    pub refusal: Option<Error>,
    /// Number of wants that were refused so far, and the size of the last one.
    refused: (u64, u64),
}

impl Control {
    /// Remembers the largest want.
    pub fn want(&mut self, want: Want) {
        if self.wanted.is_none_or(|other| units(other) < units(want)) {
            self.wanted = Some(want);
        }
    }

    /// Asks for a rotation that does what all unanswered ones want; returns its number.
    pub fn want_rotation(&mut self, rotation: Rotation) -> u64 {
        self.rotations_wanted += 1;
        self.rotation.leaves_segment |= rotation.leaves_segment;
        if units(rotation.room_for) > units(self.rotation.room_for) {
            self.rotation.room_for = rotation.room_for;
        }
        self.rotations_wanted
    }

    /// Refuses a want, because there is no segment for it.
    pub fn refuse(&mut self, want: Want) {
        assert!(self.refusal.is_some(), "a refusal has a reason");
        self.refused = (self.refused.0 + 1, units(want));
    }

    /// Number of wants that were refused so far.
    pub fn refusals(&self) -> u64 {
        self.refused.0
    }

    /// Why `want` was refused since there were `before` refusals. Refusals of earlier or of
    /// larger wants do not concern it.
    pub fn refusal_since(&self, before: u64, want: Want) -> Option<Error> {
        let (refusals, size) = self.refused;
        let concerned = refusals > before && size <= units(want);
        self.refusal.clone().filter(|_| concerned)
    }
}

fn units(want: Want) -> u64 {
    match want {
        Want::Frame(units) | Want::Records(units) => units,
    }
}

/// The inside of a log.
#[derive(Debug)]
pub(crate) struct LogState {
    pub options: Options,
    pub buffers: [Buffer; 2],
    /// Index of the buffer that producers fill, or [`NO_BUFFER`].
    pub open_buffer: AtomicUsize,
    pub control: Mutex<Control>,
    /// Signalled when a buffer was opened or an order was served or refused.
    pub served: Condvar,
    /// `control` may hold something for the committer.
    pub ordered: AtomicBool,
    /// Wakes the committer.
    pub doorbell: Arc<Doorbell>,
    pub progress: CommitProgress,
    pub segments: Segments,
    pub pool: SegmentPool,
    /// For readers of many records.
    pub answers: Answers,
    /// The committer of a log without a flush thread; `None` once the log is closed. In a box,
    /// because it is large, and taken out and put back for each group.
    pub caller: Mutex<Option<Box<CallerCommitter>>>,
}

impl LogState {
    /// Sequence of the newest frame, in a buffer or done.
    pub fn appended(&self) -> Sequence {
        let durable = self.progress.durable();
        match self.open_buffer.load(Ordering::Acquire) {
            NO_BUFFER => durable,
            index => self.buffers[index].last_sequence().max(durable),
        }
    }

    pub fn new(options: Options, pool: SegmentPool) -> LogState {
        // A group lies in one segment.
        let segment_bytes = usize::try_from(pool.segment_bytes()).unwrap_or(usize::MAX);
        let bytes = options.group_bytes_max.min(segment_bytes);
        let bytes = bytes.next_multiple_of(4096);
        LogState {
            options,
            buffers: [Buffer::new(bytes), Buffer::new(bytes)],
            open_buffer: AtomicUsize::new(NO_BUFFER),
            control: Mutex::default(),
            served: Condvar::new(),
            ordered: AtomicBool::new(false),
            doorbell: Arc::clone(&pool.parameters.doorbell),
            progress: CommitProgress::default(),
            segments: Segments::default(),
            pool,
            answers: Answers::default(),
            caller: Mutex::default(),
        }
    }

    /// Waits until the committer has opened a buffer or served an order; may wake spuriously.
    pub fn wait_served<'a>(
        &'a self,
        mut control: MutexGuard<'a, Control>,
    ) -> MutexGuard<'a, Control> {
        if self.options.worker.is_caller() {
            drop(control);
            self.work();
            return self.control.lock();
        }
        control.waiting += 1;
        let mut control = self
            .served
            .wait(control)
            .unwrap_or_else(PoisonError::into_inner);
        control.waiting -= 1;
        control
    }

    /// Makes everything that is done stable. With [`Durability::Durable`] it is already.
    pub fn flush(&self) -> Result<(), Error> {
        if self.options.durability == Durability::Durable {
            return Ok(());
        }
        self.check_running()?;
        let flushed = self.pool.flushed()?;
        let mut segments = self.segments.all();
        segments.retain(|it| {
            it.header.kind == SegmentKind::Log && end_of(it.id(), it.extent().end) > flushed
        });
        self.pool.flush(&segments)?;
        // A write that failed may have spoiled bytes that were there before.
        self.check_running()
    }

    /// An error when a write or flush of the log has failed.
    fn check_running(&self) -> Result<(), Error> {
        self.progress.failure().map_or(Ok(()), Err)
    }

    /// Bytes of frames that are done and that a loss of power may take.
    pub fn unflushed_bytes(&self) -> u64 {
        if self.options.durability == Durability::Durable {
            return 0;
        }
        let flushed = self.pool.flushed_up_to();
        let logs = self.segments.all().into_iter();
        let logs = logs.filter(|it| it.header.kind == SegmentKind::Log);
        let behind = logs.filter(|it| it.id() >= flushed.segment()).map(|it| {
            let from = match it.id() == flushed.segment() {
                true => flushed.offset().max(FRAMES_START),
                false => FRAMES_START,
            };
            it.extent().end.saturating_sub(from)
        });
        behind.sum()
    }

    /// Tells the committer to look at `control`.
    pub fn order(&self) {
        self.ordered.store(true, Ordering::Release);
        self.doorbell.ring();
    }
}
