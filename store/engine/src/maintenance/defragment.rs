//! Defragmentation: releasing all garbage at once, for a caller that waits for it.
//!
//! ```text
//!   sweep ──► seal the active ──► copy ──► swap ──► checkpoint ──► done
//!             segment (thread)      ▲    (slices)    (thread)
//!                                   └── more garbage ──┘
//! ```
//!
//! With a [`KeyOrder`], versions are put in the order of their keys before.
//!
//! The steps are those of the ordinary upkeep, so appends, applying and reads go on
//! between them. Garbage that is made after the beginning is not looked for: otherwise
//! a busy store would never come to the end.

use super::key_order::{DoneInOrder, KeyOrder};
use super::{Done, Maintenance, Work};
use crate::Error;
use crate::applied::Applied;
use crate::moves::Moves;
use crate::parts::Parts;
use crate::reclaim::{self, KeyOrderWalk, Plan};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Progress of a defragmentation.
#[derive(Debug)]
pub(super) struct Defragmentation {
    /// The sweep of this compaction must be finished first.
    compacted: i64,
    /// Segments from here on came later; `None`: the active one is not sealed yet.
    until: Option<u32>,
    /// The active segment was sealed, or not even the second attempt sealed it. On a full disk
    /// the first attempt fails, and the second one follows when other segments have gone.
    rotated: bool,
    /// Segments that were emptied or filled: they are not looked at again.
    done: BTreeSet<u32>,
    /// A checkpoint has begun since the active segment was sealed.
    checkpointed: bool,
    /// Versions are put in the order of their keys before garbage is looked for.
    key_order: Option<KeyOrder>,
    /// The next work is of the key order, and not other work.
    has_turn: bool,
    /// Tells the tasks of its key order from those of an earlier one.
    token: Arc<()>,
    /// The error that has ended the key order. It is returned when the garbage has been released.
    failure: Option<Error>,
}

impl Defragmentation {
    fn new(compacted: i64) -> Defragmentation {
        Defragmentation {
            compacted,
            until: None,
            rotated: false,
            done: BTreeSet::new(),
            checkpointed: false,
            key_order: None,
            has_turn: false,
            token: Arc::new(()),
            failure: None,
        }
    }

    fn in_key_order(compacted: i64) -> Defragmentation {
        Defragmentation {
            key_order: Some(KeyOrder::Sealing),
            ..Defragmentation::new(compacted)
        }
    }

    /// Takes note of what a task of the key order has done.
    fn end_task(&mut self, applied: &Applied, done: DoneInOrder) {
        let Some(key_order) = self.key_order.take() else {
            return;
        };
        if matches!(done, DoneInOrder::Sealed) {
            self.until = Some(sealed_until(&applied.parts));
            self.rotated = true;
            // A walk may take records out of what an earlier copy has filled.
            self.done.clear();
        }
        match key_order.after(applied, done) {
            Ok(next) => self.key_order = next,
            Err(error) => self.failure = Some(error),
        }
    }

    /// Whether the key order has its turn now. It takes turns with other work.
    fn take_turn(&mut self) -> bool {
        self.has_turn = self.key_order.is_some() && !self.has_turn;
        self.key_order.is_some() && !self.has_turn
    }

    /// Takes note of segments that need not be looked at again.
    pub(super) fn note(&mut self, moves: &Moves) {
        self.done.extend(moves.filled());
        self.done.extend(moves.emptied());
    }
}

impl Maintenance {
    pub(crate) fn begin_defragmentation(&mut self, compacted: i64) {
        self.defragmentation = Some(Defragmentation::new(compacted));
    }

    /// A defragmentation that puts versions in the order of their keys first.
    pub(crate) fn begin_key_order(&mut self, compacted: i64) {
        self.defragmentation = Some(Defragmentation::in_key_order(compacted));
    }

    /// Whether versions are being put in the order of their keys.
    pub(super) fn is_putting_in_order(&self) -> bool {
        let defragmentation = self.defragmentation.as_ref();
        defragmentation.is_some_and(|it| it.key_order.is_some())
    }

    fn key_order(&self) -> Option<&KeyOrder> {
        self.defragmentation.as_ref()?.key_order.as_ref()
    }

    /// The walk that is under way.
    pub(super) fn walk(&self) -> Option<&KeyOrderWalk> {
        self.key_order()?.walk()
    }

    /// Whether the copies of a key order are worth a checkpoint.
    pub(super) fn has_many_copies(&self, applied: &Applied) -> bool {
        let segment_bytes = applied.parts.records.log_view.log.segment_bytes();
        let key_order = self.key_order();
        key_order.is_some_and(|it| it.wants_checkpoint(segment_bytes, self.last_bytes))
    }

    pub(super) fn note_saved_copies(&mut self) {
        let defragmentation = self.defragmentation.as_mut();
        if let Some(key_order) = defragmentation.and_then(|it| it.key_order.as_mut()) {
            key_order.note_checkpoint();
        }
    }

    /// Whether a key order has its turn now, and no other work may begin.
    pub(super) fn take_turn_of_key_order(&mut self) -> bool {
        let defragmentation = self.defragmentation.as_mut();
        defragmentation.is_some_and(Defragmentation::take_turn)
    }

    /// Begins the next task of the key order, when no other work is under way.
    pub(super) fn order_further(&mut self, applied: &Applied) {
        let Some(Defragmentation {
            key_order: Some(key_order),
            token,
            ..
        }) = &self.defragmentation
        else {
            return;
        };
        let token = Arc::clone(token);
        let begun = key_order.next(applied).and_then(|task| {
            let body = task.body;
            let body = move || Ok(Done::InOrder(token, body()));
            self.start(applied, task.thread, body)
        });
        if let Err(error) = begun
            && let Some(defragmentation) = &mut self.defragmentation
        {
            defragmentation.end_task(applied, DoneInOrder::Failed(error));
        }
    }

    /// Takes note of what a task of the key order with this token has done.
    pub(super) fn end_task_of_key_order(
        &mut self,
        applied: &Applied,
        token: &Arc<()>,
        mut done: DoneInOrder,
    ) {
        if let DoneInOrder::Copied(round) = &mut done {
            self.work = Work::Swapping(std::mem::take(&mut round.moves));
        }
        if let Some(defragmentation) = &mut self.defragmentation
            && Arc::ptr_eq(&defragmentation.token, token)
        {
            defragmentation.end_task(applied, done);
        }
    }

    /// Copies that were not swapped are given up, so the walk begins again.
    pub(super) fn begin_key_order_again(&mut self) {
        if let Some(defragmentation) = &mut self.defragmentation
            && defragmentation.key_order.is_some()
        {
            defragmentation.key_order = Some(KeyOrder::Sealing);
            defragmentation.token = Arc::new(());
        }
    }

    /// Whether it waits for a sweep: what that drops is garbage.
    pub(super) fn waits_for_sweep(&self, applied: &Applied) -> bool {
        let begun = self.defragmentation.as_ref();
        begun.is_some_and(|it| applied.is_sweeping() && applied.swept() < it.compacted)
    }

    pub(crate) fn is_defragmenting(&self) -> bool {
        self.defragmentation.is_some()
    }

    /// Waits for what is under way. A failure ends the defragmentation.
    pub(crate) fn finish_or_end(&mut self, applied: &mut Applied) -> Result<(), Error> {
        let outcome = self.finish_work(applied);
        self.end_defragmentation_if_failed(outcome)
    }

    /// A failure of other work beside a key order is tried again after a pause; any other one ends the
    /// defragmentation.
    pub(super) fn end_defragmentation_if_failed(
        &mut self,
        outcome: Result<(), Error>,
    ) -> Result<(), Error> {
        match outcome {
            Ok(()) => self.failure.take().map_or(Ok(()), Err),
            Err(error) if self.is_putting_in_order() => {
                tracing::warn!(%error, "upkeep beside a compaction has failed");
                Ok(())
            }
            Err(error) => {
                let ended = self.defragmentation.take();
                match ended.and_then(|it| it.failure) {
                    Some(first) => {
                        tracing::warn!(%error, "garbage of a compaction that had failed was not released");
                        Err(first)
                    }
                    None => Err(error),
                }
            }
        }
    }

    /// Begins the next piece, when none is under way.
    pub(super) fn defragment_further(
        &mut self,
        applied: &Applied,
        state: &mut dyn FnMut() -> Vec<u8>,
    ) -> Result<(), Error> {
        let Some(defragmentation) = &self.defragmentation else {
            return Ok(());
        };
        let Some(until) = defragmentation.until else {
            return self.start_rotation(applied);
        };
        self.condemn_what_is_empty(applied, until);
        if self.wanted {
            return self.start_last_checkpoint(applied, state());
        }
        let Some(defragmentation) = &self.defragmentation else {
            return Ok(());
        };
        let done = &defragmentation.done;
        let plan = Plan::everything(&applied.parts, &applied.index, until, done);
        let is_saved = defragmentation.checkpointed || self.is_saved(applied);
        match (plan.victims.is_empty(), is_saved) {
            (false, _) => self.start_copy(applied, plan),
            (true, false) => self.start_last_checkpoint(applied, state()),
            (true, true) if defragmentation.rotated => {
                let ended = self.defragmentation.take();
                self.failure = ended.and_then(|it| it.failure);
                Ok(())
            }
            (true, true) => self.start_rotation(applied),
        }
    }

    /// Sealed segments that nothing points into go, whatever history they have.
    fn condemn_what_is_empty(&mut self, applied: &Applied, until: u32) {
        let (records, index) = (&applied.parts.records, &applied.index);
        let empty = reclaim::empty_segments(records, index);
        self.condemned.extend(empty.filter(|&id| id < until));
    }

    /// Whether another checkpoint would say the same as the last one, and release nothing.
    fn is_saved(&self, applied: &Applied) -> bool {
        let segments = applied.parts.records.log_view.log.segments();
        let replay_position = self.replay_or_kept_position(applied, &segments);
        !self.has_moved
            && self.last_done == applied.index.applied_position
            && self
                .dead_segments(applied, &segments, replay_position)
                .is_empty()
    }

    /// The last one if no more garbage is found.
    fn start_last_checkpoint(&mut self, applied: &Applied, state: Vec<u8>) -> Result<(), Error> {
        if let Some(defragmentation) = &mut self.defragmentation {
            defragmentation.checkpointed = true;
        }
        self.start_checkpoint(applied, state)
    }

    /// Seals the active segment, beside the appends. The log needs another one then: on a disk
    /// that is nearly full other segments are released first, and the active one is sealed
    /// only if it has much garbage.
    fn start_rotation(&mut self, applied: &Applied) -> Result<(), Error> {
        let parts = Arc::clone(&applied.parts);
        let log_view = &parts.records.log_view;
        let defragmentation = self.defragmentation.as_ref();
        let is_first = defragmentation.is_some_and(|it| it.until.is_none());
        let is_low = parts
            .directory
            .is_low_on_space(log_view.log.segment_bytes());
        let waits = is_low && (is_first || !log_view.has_much_garbage_at_the_end());
        self.start(applied, "engine-rotate", move || {
            if waits {
                return Ok(Done::Rotated(false));
            }
            match parts.records.log_view.log.rotate() {
                Ok(()) => Ok(Done::Rotated(true)),
                Err(error) if error.is_shortage() => Ok(Done::Rotated(false)),
                Err(error) => Err(error.into()),
            }
        })
    }

    pub(super) fn end_rotation(&mut self, applied: &Applied, rotated: bool) {
        let until = sealed_until(&applied.parts);
        if let Some(defragmentation) = &mut self.defragmentation {
            let tried_before = defragmentation.until.is_some();
            defragmentation.until = Some(until);
            // The second attempt is the last one, even if it fails.
            defragmentation.rotated = rotated || tried_before;
            defragmentation.checkpointed = tried_before && !rotated;
        }
    }
}

/// All sealed segments are below this one.
fn sealed_until(parts: &Parts) -> u32 {
    let segments = parts.records.log_view.log.segments();
    let sealed = segments.iter().filter(|segment| segment.sealed);
    sealed.map(|segment| segment.id + 1).max().unwrap_or(0)
}
