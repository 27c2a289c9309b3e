//! Upkeep when a snapshot replaces the state.

use super::{Done, Maintenance, Work};
use crate::applied::Applied;
use crate::lifecycle::Lifecycle;
use std::sync::Arc;
use value_log::Position;

impl Maintenance {
    /// Stops the work that is under way and ignores its outcome.
    pub(crate) fn cancel(&mut self, lifecycle: &Lifecycle) {
        self.begin_key_order_again();
        let Work::Running(task) = std::mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        if let Err(error) = lifecycle.cancel_during(|| task.finish()) {
            tracing::debug!(%error, "upkeep was cancelled");
        }
    }

    /// Begins upkeep of an installed state, which a checkpoint holds; the log is replayed from
    /// `base`. Releases the segments that nothing points into any more.
    pub(crate) fn begin_of_installed(
        &mut self,
        applied: &Applied,
        base: Position,
        checkpoint_bytes: u64,
    ) {
        let parts = Arc::clone(&applied.parts);
        let log_view = &parts.records.log_view;
        let segments = log_view.log.segments();
        let mut live = log_view.accounting.live.lock();
        segments.iter().for_each(|segment| live.enter(segment.id));
        drop(live);
        let dead = self.dead_segments(applied, &segments, base);
        self.last_bytes = checkpoint_bytes;
        self.last_begun = base;
        self.last_done = base;
        self.looked_at = applied.index.compacted;
        self.wanted = false;
        self.collects_on = false;
        self.has_moved = false;
        self.condemned.clear();
        self.kept_from = None;
        // The garbage goes with the old state.
        self.defragmentation = None;
        let release = move || parts.release(&dead).map(|()| Done::Released);
        if let Err(error) = self.start(applied, "engine-release", release) {
            // The next checkpoint releases them.
            tracing::warn!(%error, "old segments are released later");
            self.wanted = true;
        }
    }
}
