//! Defragmentation: giving all garbage back at once, for a caller that waits for it.
//!
//! ```text
//!   sweep ──► seal the active ──► copy ──► swap ──► checkpoint ──► done
//!             segment (thread)      ▲    (slices)    (thread)
//!                                   └── more garbage ──┘
//! ```
//!
//! The steps are those of the ordinary upkeep, so appends, applying and reads go on
//! between them. Garbage that is made after the beginning is not looked for: otherwise
//! a busy store would never come to the end.

use super::Work;
use crate::Error;
use crate::apply::Applier;
use crate::reclaim::{Moves, Plan};
use crate::task::Task;
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
}

impl Defragmentation {
    /// Takes note of segments that need not be looked at again.
    pub(super) fn note(&mut self, moves: &Moves) {
        self.done.extend(moves.filled());
        self.done.extend(moves.emptied());
    }
}

impl Applier {
    /// Has [`Applier::maintain`] give back all that is garbage at this moment, for
    /// stores of any size. One that is under way starts over.
    pub fn begin_defragmentation(&mut self) {
        self.maintenance.defragmentation = Some(Defragmentation {
            compacted: self.index.compacted,
            until: None,
            rotated: false,
            done: BTreeSet::new(),
            checkpointed: false,
        });
    }

    /// Whether a defragmentation is under way. A call of [`Applier::maintain`] that fails
    /// ends it.
    pub fn is_defragmenting(&self) -> bool {
        self.maintenance.defragmentation.is_some()
    }

    /// Gives back all garbage, and returns when it has gone. Appends of other
    /// threads and all reads go on; applying waits.
    pub fn defragment(&mut self, state: &[u8]) -> Result<(), Error> {
        self.begin_defragmentation();
        while self.is_defragmenting() {
            let outcome = self.finish_work();
            self.end_defragmentation_if_failed(outcome)?;
            self.finish_compaction();
            self.maintain(&mut || state.to_vec())?;
        }
        Ok(())
    }

    pub(super) fn end_defragmentation_if_failed(
        &mut self,
        outcome: Result<(), Error>,
    ) -> Result<(), Error> {
        outcome.inspect_err(|_| self.maintenance.defragmentation = None)
    }

    /// Begins the next piece, when none is under way.
    pub(super) fn defragment_further(
        &mut self,
        state: &mut dyn FnMut() -> Vec<u8>,
    ) -> Result<(), Error> {
        let Some(defragmentation) = &self.maintenance.defragmentation else {
            return Ok(());
        };
        if self.is_sweeping() && self.swept() < defragmentation.compacted {
            return Ok(());
        }
        let Some(until) = defragmentation.until else {
            return self.start_rotation();
        };
        if self.maintenance.wanted {
            return self.start_last_checkpoint(state());
        }
        let plan = Plan::everything(&self.engine.0, &self.index, until, &defragmentation.done);
        match (plan.victims.is_empty(), defragmentation.checkpointed) {
            (false, _) => self.start_copy(plan),
            (true, false) => self.start_last_checkpoint(state()),
            (true, true) if defragmentation.rotated => {
                self.maintenance.defragmentation = None;
                Ok(())
            }
            (true, true) => self.start_rotation(),
        }
    }

    /// The last one if no more garbage is found.
    fn start_last_checkpoint(&mut self, state: Vec<u8>) -> Result<(), Error> {
        if let Some(defragmentation) = &mut self.maintenance.defragmentation {
            defragmentation.checkpointed = true;
        }
        self.start_checkpoint(state)
    }

    /// Seals the active segment, beside the appends. The log needs another one then: on a disk
    /// that is nearly full other segments are given back first, and the active one is sealed
    /// only if it has much garbage.
    fn start_rotation(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.engine.0);
        let defragmentation = self.maintenance.defragmentation.as_ref();
        let is_first = defragmentation.is_some_and(|it| it.until.is_none());
        let waits = shared.is_low_on_space() && (is_first || !shared.has_much_garbage_at_the_end());
        let rotate = move || {
            if waits {
                return Ok(false);
            }
            match shared.log.rotate() {
                Ok(()) => Ok(true),
                Err(error) if error.is_shortage() => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        let worker = self.engine.0.options.worker;
        self.maintenance.work = Work::Rotating(Task::start(worker, "engine-rotate", rotate)?);
        Ok(())
    }

    pub(super) fn end_rotation(&mut self, task: Task<bool>) -> Result<(), Error> {
        let rotated = task.finish()?;
        let segments = self.engine.0.log.segments();
        let sealed = segments.iter().filter(|segment| segment.sealed);
        let until = sealed.map(|segment| segment.id + 1).max();
        if let Some(defragmentation) = &mut self.maintenance.defragmentation {
            let tried_before = defragmentation.until.is_some();
            defragmentation.until = Some(until.unwrap_or(0));
            // The second attempt is the last one, even if it fails.
            defragmentation.rotated = rotated || tried_before;
            defragmentation.checkpointed = tried_before && !rotated;
        }
        Ok(())
    }
}
