//! Defragmentation: releasing all garbage at once, for a caller that waits for it.
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

use super::{Done, Maintenance};
use crate::Error;
use crate::applied::Applied;
use crate::moves::Moves;
use crate::reclaim::Plan;
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

impl Maintenance {
    pub(crate) fn begin_defragmentation(&mut self, compacted: i64) {
        self.defragmentation = Some(Defragmentation {
            compacted,
            until: None,
            rotated: false,
            done: BTreeSet::new(),
            checkpointed: false,
        });
    }

    pub(crate) fn is_defragmenting(&self) -> bool {
        self.defragmentation.is_some()
    }

    /// Waits for what is under way. A failure ends the defragmentation.
    pub(crate) fn finish_or_end(&mut self, applied: &mut Applied) -> Result<(), Error> {
        let outcome = self.finish_work(applied);
        self.end_defragmentation_if_failed(outcome)
    }

    pub(super) fn end_defragmentation_if_failed(
        &mut self,
        outcome: Result<(), Error>,
    ) -> Result<(), Error> {
        outcome.inspect_err(|_| self.defragmentation = None)
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
        if applied.is_sweeping() && applied.swept() < defragmentation.compacted {
            return Ok(());
        }
        let Some(until) = defragmentation.until else {
            return self.start_rotation(applied);
        };
        if self.wanted {
            return self.start_last_checkpoint(applied, state());
        }
        let done = &defragmentation.done;
        let plan = Plan::everything(&applied.parts, &applied.index, until, done);
        match (plan.victims.is_empty(), defragmentation.checkpointed) {
            (false, _) => self.start_copy(applied, plan),
            (true, false) => self.start_last_checkpoint(applied, state()),
            (true, true) if defragmentation.rotated => {
                self.defragmentation = None;
                Ok(())
            }
            (true, true) => self.start_rotation(applied),
        }
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
        let segments = applied.parts.records.log_view.log.segments();
        let sealed = segments.iter().filter(|segment| segment.sealed);
        let until = sealed.map(|segment| segment.id + 1).max();
        if let Some(defragmentation) = &mut self.defragmentation {
            let tried_before = defragmentation.until.is_some();
            defragmentation.until = Some(until.unwrap_or(0));
            // The second attempt is the last one, even if it fails.
            defragmentation.rotated = rotated || tried_before;
            defragmentation.checkpointed = tried_before && !rotated;
        }
    }
}
