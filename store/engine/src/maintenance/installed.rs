//! Upkeep when a snapshot replaces the state.

use super::Work;
use crate::apply::Applier;
use crate::task::Task;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value_log::Position;

impl Applier {
    /// Stops the work that is under way and ignores its outcome.
    pub(crate) fn abandon_work(&mut self) {
        let shared = Arc::clone(&self.engine.0);
        shared.replacing.store(true, Ordering::Relaxed);
        let outcome = match std::mem::replace(&mut self.maintenance.work, Work::Idle) {
            Work::Idle | Work::Swapping(_) => Ok(()),
            Work::Copying(task) => task.finish().map(drop),
            Work::Rotating(task) => task.finish().map(drop),
            Work::Checkpoint(task) => task.finish().map(drop),
            Work::GivingBack(task) => task.finish(),
        };
        shared.replacing.store(false, Ordering::Relaxed);
        if let Err(error) = outcome {
            tracing::debug!(%error, "upkeep was given up for a snapshot");
        }
    }

    /// Begins upkeep of an installed state, which a checkpoint holds; the log is replayed from
    /// `base`. Gives back the segments that nothing points into any more.
    pub(crate) fn maintain_installed(&mut self, base: Position, checkpoint_bytes: u64) {
        let shared = Arc::clone(&self.engine.0);
        let segments = shared.log.segments();
        let mut live = shared.books.live();
        segments.iter().for_each(|segment| live.enter(segment.id));
        drop(live);
        let dead = self.dead_segments(&segments, base);
        let maintenance = &mut self.maintenance;
        maintenance.last_bytes = checkpoint_bytes;
        maintenance.last_begun = base;
        maintenance.looked_at = self.index.compacted;
        maintenance.wanted = false;
        maintenance.condemned.clear();
        maintenance.kept_from = None;
        // The garbage goes with the old state.
        maintenance.defragmentation = None;
        let worker = shared.options.worker;
        let task = Task::start(worker, "engine-release", move || shared.give_back(&dead));
        match task {
            Ok(task) => maintenance.work = Work::GivingBack(task),
            // The next checkpoint gives them back.
            Err(error) => {
                tracing::warn!(%error, "old segments are given back later");
                maintenance.wanted = true;
            }
        }
    }

    /// After a crash there may be segments that only an unfinished import, or a
    /// state before this one, has used: the next step gives them back.
    pub(crate) fn look_for_remains(&mut self, replayed_from: Position) {
        let segments = self.engine.0.log.segments();
        let remains = self.dead_segments(&segments, replayed_from);
        self.maintenance.wanted = !remains.is_empty();
    }
}
