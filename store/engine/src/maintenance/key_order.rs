//! The first part of a defragmentation in the order of keys.
//!
//! ```text
//!   seal the active segment ──► measure what is out of order ──► rounds: copy, swap ──► collect garbage
//!                                (walks the index alone)         (one behind the other)
//! ```
//!
//! Checkpoints that are due and the collection of other garbage go on between the rounds. A
//! failure of one of its tasks ends this part: the part that collects garbage follows, and then the error is
//! returned (docs/decisions/0048-compaction-in-key-order.md).

use crate::Error;
use crate::applied::Applied;
use crate::directory;
use crate::parts::Parts;
use crate::reclaim::{self, KeyOrderWalk, WalkPlace, WalkRound};
use std::sync::Arc;
use value_log::SegmentKind;

/// Headers of frames, and what is left at the ends of segments, take less than one part in this many
/// of the records, unless these are long.
const HEADERS_PART: u64 = 32;
/// A round may end a window late, and the log needs another segment while it runs.
const SEGMENTS_BESIDE: u64 = 2;
/// Copies are saved by a checkpoint when they take this many segments...
const UNSAVED_SEGMENTS: u64 = 16;
/// ...and this many times the bytes of the last checkpoint.
const UNSAVED_CHECKPOINTS: u64 = 8;

/// Progress of putting versions in the order of their keys.
#[derive(Debug)]
pub(super) enum KeyOrder {
    /// The active segment is sealed first.
    Sealing,
    /// The records that lie out of order are measured.
    Measuring(Arc<KeyOrderWalk>),
    /// Rounds of copies.
    Copying(Copying),
}

#[derive(Debug)]
pub(super) struct Copying {
    walk: Arc<KeyOrderWalk>,
    /// Where the next round begins.
    place: WalkPlace,
    /// Bytes of copies that no checkpoint knows.
    unsaved_bytes: u64,
}

/// The outcome of a task.
#[derive(Debug)]
pub(super) enum DoneInOrder {
    /// The log has sealed its present segment.
    Sealed,
    /// Bytes of the records that lie out of order.
    Measured(u64),
    Copied(WalkRound),
    Failed(Error),
}

/// A task that is to be done next, and the name of its thread.
pub(super) struct NextTask {
    pub(super) thread: &'static str,
    pub(super) body: Box<dyn FnOnce() -> DoneInOrder + Send>,
}

impl NextTask {
    fn new(
        thread: &'static str,
        body: impl FnOnce() -> Result<DoneInOrder, Error> + Send + 'static,
    ) -> NextTask {
        NextTask {
            thread,
            body: Box::new(|| body().unwrap_or_else(DoneInOrder::Failed)),
        }
    }
}

impl KeyOrder {
    /// The walk that is under way.
    pub(super) fn walk(&self) -> Option<&KeyOrderWalk> {
        match self {
            KeyOrder::Sealing => None,
            KeyOrder::Measuring(walk) => Some(walk),
            KeyOrder::Copying(copying) => Some(&copying.walk),
        }
    }

    /// The next task, when no other work is under way.
    pub(super) fn next(&self, applied: &Applied) -> Result<NextTask, Error> {
        let parts = Arc::clone(&applied.parts);
        match self {
            KeyOrder::Sealing => seal(applied),
            KeyOrder::Measuring(walk) => {
                let walk = Arc::clone(walk);
                Ok(NextTask::new("engine-reclaim", move || {
                    Ok(DoneInOrder::Measured(walk.bytes_out_of_order(&parts)))
                }))
            }
            KeyOrder::Copying(copying) => {
                let bytes_max = round_bytes(&parts)?;
                let (walk, place) = (Arc::clone(&copying.walk), copying.place.clone());
                Ok(NextTask::new("engine-reclaim", move || {
                    let round = walk.copy_round(&parts, place, bytes_max)?;
                    Ok(DoneInOrder::Copied(round))
                }))
            }
        }
    }

    /// Takes note of what a task has done; `None`: that was all.
    pub(super) fn after(
        self,
        applied: &Applied,
        done: DoneInOrder,
    ) -> Result<Option<KeyOrder>, Error> {
        match (self, done) {
            (_, DoneInOrder::Failed(error)) => Err(error),
            // The segments that are sealed now take part; those that follow do not.
            (KeyOrder::Sealing, DoneInOrder::Sealed) => {
                let walk = KeyOrderWalk::new(&applied.parts, &applied.index);
                Ok(Some(KeyOrder::Measuring(Arc::new(walk))))
            }
            (KeyOrder::Measuring(_), DoneInOrder::Measured(0)) => Ok(None),
            (KeyOrder::Measuring(walk), DoneInOrder::Measured(bytes)) => {
                check_room(&applied.parts, bytes + bytes / HEADERS_PART)?;
                Ok(Some(KeyOrder::Copying(Copying {
                    walk,
                    place: WalkPlace::default(),
                    unsaved_bytes: 0,
                })))
            }
            (KeyOrder::Copying(copying), DoneInOrder::Copied(round)) => {
                Ok(round.next.map(|place| {
                    KeyOrder::Copying(Copying {
                        place,
                        unsaved_bytes: copying.unsaved_bytes + round.copied_bytes,
                        ..copying
                    })
                }))
            }
            (other, done) => panic!("{other:?} after {done:?}"),
        }
    }

    /// Whether the copies are worth a checkpoint. `checkpoint_bytes`: those of the last one.
    pub(super) fn wants_checkpoint(&self, segment_bytes: u64, checkpoint_bytes: u64) -> bool {
        let KeyOrder::Copying(copying) = self else {
            return false;
        };
        let least_bytes = UNSAVED_SEGMENTS * segment_bytes;
        copying.unsaved_bytes >= least_bytes.max(UNSAVED_CHECKPOINTS * checkpoint_bytes)
    }

    /// A checkpoint knows all copies.
    pub(super) fn note_checkpoint(&mut self) {
        if let KeyOrder::Copying(copying) = self {
            copying.unsaved_bytes = 0;
        }
    }
}

/// Seals the active segment, if it has anything.
fn seal(applied: &Applied) -> Result<NextTask, Error> {
    let parts = Arc::clone(&applied.parts);
    let is_empty = is_active_segment_empty(applied);
    if !is_empty {
        check_room(&parts, 0)?;
    }
    Ok(NextTask::new("engine-rotate", move || {
        if !is_empty {
            parts.records.log_view.log.rotate()?;
        }
        Ok(DoneInOrder::Sealed)
    }))
}

/// Whether no applied batch is in the segment that is written.
fn is_active_segment_empty(applied: &Applied) -> bool {
    let segments = applied.parts.records.log_view.log.segments();
    let mut log = segments.iter().filter(|it| it.kind == SegmentKind::Log);
    log.all(|it| it.sealed || it.id > applied.index.applied_position.segment())
}

/// Refuses where copies of `copy_bytes` do not fit, with the checkpoint behind them.
fn check_room(parts: &Parts, copy_bytes: u64) -> Result<(), Error> {
    let records = &parts.records;
    let checkpoint_bytes = directory::checkpoint_bytes(records.index.index_bytes());
    let beside = SEGMENTS_BESIDE * records.log_view.log.segment_bytes();
    let needed_bytes = copy_bytes + checkpoint_bytes + beside;
    parts.directory.check_room_for_copy(needed_bytes)
}

/// How many bytes the next round may copy.
fn round_bytes(parts: &Parts) -> Result<u64, Error> {
    let mut segments = reclaim::ROUND_SEGMENTS;
    let usable_bytes = reclaim::usable_bytes(parts.records.log_view.log.segment_bytes());
    while segments > 1 && check_room(parts, segments * usable_bytes).is_err() {
        segments -= 1;
    }
    check_room(parts, segments * usable_bytes)?;
    Ok(segments * usable_bytes)
}
