//! Work that keeps a store small and its restart short, beside the writes.
//!
//! ```text
//!              ┌─────────────── idle ◄──────────────┐
//!   log grew   │           garbage is worth it      │
//!              ▼                    ▼               │
//!         checkpoint ◄── swap ◄── copy              │
//!         (thread)      (slices) (thread)           │
//!              └── releases dead segments  ────────┘
//! ```
//!
//! [`crate::Applier::maintain`] is a step of this machine. The slow parts run on a
//! thread of their own; what must happen between two batches (beginning a
//! checkpoint, swapping pointers, sweeping after a compaction) happens in the
//! step, a bounded piece at a time. Garbage is looked for when a sweep is
//! through, although the next one may have begun: compactions may come faster
//! than their sweeps end. A checkpoint costs writing the index, so garbage counts as worth it
//! when it exceeds that and a segment. During a defragmentation `defragment.rs` chooses the
//! next step.

pub(crate) mod closing;
mod defragment;
mod installed;
mod key_order;

use crate::Error;
use crate::applied::Applied;
use crate::apply::Index;
use crate::checkpoint::Job;
use crate::checkpoint::format::Head;
use crate::lifecycle::Lifecycle;
use crate::live::Live;
use crate::moves::Moves;
use crate::reclaim::{self, Plan};
use crate::task::Task;
use crate::trees;
use defragment::Defragmentation;
use environment::Instant;
use key_order::DoneInOrder;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use value_log::{Position, SegmentInfo, SegmentKind};

/// Pause after upkeep has failed, on a full disk or without a descriptor. Each further failure
/// doubles it, at most `RETRY_DOUBLINGS_MAX` times.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS_MAX: u32 = 5;
/// A checkpoint is due when the log has grown by these halves of the last one's bytes.
const DUE_HALVES: u64 = 3;
/// Pointers swapped in one step.
const SWAPS_PER_STEP: usize = 4096;

/// Work that is under way beside the applying thread.
#[derive(Debug)]
enum Work {
    Idle,
    Running(Task<Done>),
    /// The applying thread swaps places, a few in each step.
    Swapping(Moves),
}

/// The outcome of a task.
#[derive(Debug)]
enum Done {
    Copied(Moves),
    /// The outcome of a task of a key order, with its token.
    InOrder(Arc<()>, DoneInOrder),
    /// Whether the log has sealed its present segment.
    Rotated(bool),
    /// Bytes of the checkpoint.
    Checkpoint(u64),
    Released,
}

/// The checkpoint that an opening has loaded, or zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastCheckpoint {
    pub(crate) number: u64,
    /// Bytes of its file.
    pub(crate) bytes: u64,
    /// The last batch in it.
    pub(crate) applied: Position,
}

/// The machine's state, owned by the applying thread.
#[derive(Debug)]
pub(crate) struct Maintenance {
    work: Work,
    /// Number of the last checkpoint.
    last_number: u64,
    /// Bytes of the last checkpoint's file.
    last_bytes: u64,
    /// Applied position at the last checkpoint's beginning.
    last_begun: Position,
    /// The same of the last one that is on the disk.
    last_done: Position,
    /// The last swept compaction when garbage was last looked for.
    looked_at: i64,
    /// A checkpoint should follow, whatever the log's length.
    wanted: bool,
    /// The round of reclaim that is under way is not the last one before its checkpoint.
    collects_on: bool,
    /// Records were moved since the last checkpoint that is on the disk. An opening from that one
    /// would forget the copies.
    has_moved: bool,
    /// Segments that were empty when a defragmentation looked, or were emptied: they are dead even if their history is
    /// not compacted.
    condemned: BTreeSet<u32>,
    /// The log from here on is kept for members that are behind.
    kept_from: Option<Position>,
    /// The defragmentation that is under way.
    defragmentation: Option<Defragmentation>,
    /// The error of the defragmentation that has ended in this step.
    failure: Option<Error>,
    retry: Retry,
}

/// When upkeep that has failed is tried again.
#[derive(Debug, Default)]
struct Retry {
    /// Failures since a step came to its end.
    failures: u32,
    at: Option<Instant>,
}

impl Retry {
    fn note_failure(&mut self, now: Instant) {
        let doublings = self.failures.min(RETRY_DOUBLINGS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.at = Some(now + RETRY_MIN * (1 << doublings));
    }

    fn is_due(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| now >= at)
    }
}

impl Maintenance {
    /// Upkeep after an opening that replayed the log from `replayed_from`. A crash may have left
    /// segments that only an unfinished import, or a state before this one, has used: the first
    /// step releases them.
    pub(crate) fn new(
        applied: &Applied,
        last: LastCheckpoint,
        replayed_from: Position,
    ) -> Maintenance {
        let mut maintenance = Maintenance {
            work: Work::Idle,
            last_number: last.number,
            last_bytes: last.bytes,
            last_begun: replayed_from,
            last_done: last.applied,
            looked_at: i64::MIN,
            wanted: false,
            collects_on: false,
            has_moved: false,
            condemned: BTreeSet::new(),
            kept_from: None,
            defragmentation: None,
            failure: None,
            retry: Retry::default(),
        };
        let segments = applied.parts.records.log_view.log.segments();
        let dead = maintenance.dead_segments(applied, &segments, replayed_from);
        maintenance.wanted = !dead.is_empty();
        maintenance
    }

    /// A step of checkpointing and reclaim; a step that fails is tried again after a pause.
    pub(crate) fn step_or_retry(
        &mut self,
        applied: &mut Applied,
        state: &mut dyn FnMut() -> Vec<u8>,
    ) -> Result<(), Error> {
        let outcome = self.step(applied, state);
        if outcome.is_err() {
            // The failed work is looked for again.
            self.retry.note_failure(applied.parts.options.clock.now());
            self.wanted = true;
            self.looked_at = i64::MIN;
        }
        self.end_defragmentation_if_failed(outcome)
    }

    fn step(
        &mut self,
        applied: &mut Applied,
        state: &mut dyn FnMut() -> Vec<u8>,
    ) -> Result<(), Error> {
        if matches!(&self.work, Work::Running(task) if !task.is_finished()) {
            return Ok(());
        }
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Idle => trees::free_replaced(&mut applied.index.writer),
            Work::Swapping(moves) => {
                self.swap(applied, moves, SWAPS_PER_STEP);
                return Ok(());
            }
            Work::Running(task) => self.end_task(applied, task)?,
        }
        match self.work {
            Work::Idle => self.begin_what_is_due(applied, state),
            _ => Ok(()),
        }
    }

    /// Whether a checkpoint, reclaim or defragmentation is under way or due.
    pub(crate) fn is_under_way(&self, applied: &Applied) -> bool {
        let idle = matches!(self.work, Work::Idle);
        let wanted = (self.wanted || self.collects_on) && !self.waits_to_retry(applied);
        !idle || wanted || self.is_defragmenting()
    }

    /// Whether the next step makes progress without waiting for a thread to end.
    pub(crate) fn has_a_step_to_do(&self) -> bool {
        match self.work {
            Work::Idle => self.is_defragmenting(),
            Work::Swapping(_) => true,
            _ => false,
        }
    }

    fn begin_what_is_due(
        &mut self,
        applied: &Applied,
        state: &mut dyn FnMut() -> Vec<u8>,
    ) -> Result<(), Error> {
        if self.waits_for_sweep(applied) {
            return Ok(());
        }
        if self.is_defragmenting() && !self.is_putting_in_order() {
            return self.defragment_further(applied, state);
        }
        if self.begins_other_work(applied, state)? {
            return Ok(());
        }
        self.order_further(applied);
        Ok(())
    }

    /// Begins a checkpoint or a round of reclaim, if one is due and it is not the turn of a
    /// defragmentation.
    fn begins_other_work(
        &mut self,
        applied: &Applied,
        state: &mut dyn FnMut() -> Vec<u8>,
    ) -> Result<bool, Error> {
        if self.waits_to_retry(applied) || self.take_turn_of_key_order() {
            return Ok(false);
        }
        if self.checkpoint_is_due(applied) {
            self.start_checkpoint(applied, state())?;
            return Ok(true);
        }
        match self.look_for_garbage(applied) {
            Some(plan) => self.start_copy(applied, plan).map(|()| true),
            None => Ok(false),
        }
    }

    /// A round of reclaim, if one is worth it.
    fn look_for_garbage(&mut self, applied: &Applied) -> Option<Plan> {
        if !self.has_news_of_garbage(applied) && !self.collects_on {
            return None;
        }
        self.looked_at = applied.swept();
        let (parts, index) = (&applied.parts, &applied.index);
        let plan = Plan::worthwhile(parts, index, self.kept_from, self.walk());
        if plan.victims.is_empty() {
            self.collects_on = false;
            // The rounds of a walk that goes on are saved later.
            let has_moved = self.has_moved && !self.is_putting_in_order();
            self.wanted = plan.pays || has_moved;
            return None;
        }
        Some(plan)
    }

    /// Whether the pause after a failure is not over.
    fn waits_to_retry(&self, applied: &Applied) -> bool {
        self.retry.at.is_some() && !self.retry.is_due(applied.parts.options.clock.now())
    }

    fn start_checkpoint(&mut self, applied: &Applied, state: Vec<u8>) -> Result<(), Error> {
        let mut job = self.begin_checkpoint(applied, state);
        job.paced = true;
        self.start(applied, "engine-checkpoint", move || {
            job.run().map(Done::Checkpoint)
        })
    }

    fn start_copy(&mut self, applied: &Applied, plan: Plan) -> Result<(), Error> {
        let throttled = !self.is_defragmenting() || self.is_putting_in_order();
        self.collects_on = plan.goes_on;
        let parts = Arc::clone(&applied.parts);
        self.start(applied, "engine-reclaim", move || {
            reclaim::copy(&parts, &plan, throttled).map(Done::Copied)
        })
    }

    fn start(
        &mut self,
        applied: &Applied,
        name: &str,
        body: impl FnOnce() -> Result<Done, Error> + Send + 'static,
    ) -> Result<(), Error> {
        let worker = applied.parts.options.log.worker;
        self.work = Work::Running(Task::start(worker, name, body)?);
        Ok(())
    }

    /// Takes note of what a task has done, and waits for it first.
    fn end_task(&mut self, applied: &Applied, task: Task<Done>) -> Result<(), Error> {
        match task.finish()? {
            Done::Copied(moves) => {
                if let Some(defragmentation) = &mut self.defragmentation {
                    defragmentation.note(&moves);
                }
                self.wanted |= !self.collects_on;
                self.work = Work::Swapping(moves);
            }
            Done::InOrder(token, done) => self.end_task_of_key_order(applied, &token, done),
            Done::Rotated(rotated) => self.end_rotation(applied, rotated),
            Done::Checkpoint(bytes) => self.note_checkpoint(bytes),
            Done::Released => {}
        }
        Ok(())
    }

    /// Whether a sweep has come to its end since garbage was last looked for.
    fn has_news_of_garbage(&self, applied: &Applied) -> bool {
        let swept = applied.swept();
        let never_swept = applied.sweep.is_some() && swept < 0;
        !never_swept && self.looked_at != swept
    }

    fn checkpoint_is_due(&self, applied: &Applied) -> bool {
        let options = &applied.parts.options;
        let due_bytes = options
            .checkpoint_bytes
            .max(self.last_bytes / 2 * DUE_HALVES);
        self.wanted
            || self.has_many_copies(applied)
            || (applied.log_bytes_at_most_since(self.last_begun) >= due_bytes
                && applied.log_bytes_since(self.last_begun) >= due_bytes)
    }

    /// A checkpoint is on the disk, the one that was begun last.
    fn note_checkpoint(&mut self, bytes: u64) {
        self.last_bytes = bytes;
        self.last_done = self.last_begun;
        self.has_moved = false;
        self.note_saved_copies();
        self.retry = Retry::default();
    }

    /// Swaps at most `at_most` pointers.
    fn swap(&mut self, applied: &mut Applied, mut moves: Moves, at_most: usize) {
        let (index, records) = (&mut applied.index, &applied.parts.records);
        let mut live = records.log_view.accounting.live.lock();
        let done = moves.swap(&mut index.writer, &mut live, at_most);
        drop(live);
        index.publish(records);
        if done {
            self.condemned.extend(moves.emptied());
            self.has_moved = true;
            // Garbage is looked for again: this round leaves room for another.
            self.looked_at = i64::MIN;
        } else {
            self.work = Work::Swapping(moves);
        }
    }

    /// Keeps the log from `position` on; `None`: only what a restart needs.
    pub(crate) fn keep_from(&mut self, position: Option<Position>) {
        if position.map(Position::segment) != self.kept_from.map(Position::segment) {
            // Segments that were kept may be worth emptying now.
            self.looked_at = i64::MIN;
        }
        self.kept_from = position;
    }

    /// Writes a checkpoint and returns when it is durable.
    pub(crate) fn checkpoint(&mut self, applied: &mut Applied, state: &[u8]) -> Result<(), Error> {
        self.finish_work(applied)?;
        let bytes = self.begin_checkpoint(applied, state.to_vec()).run()?;
        self.note_checkpoint(bytes);
        Ok(())
    }

    /// Waits for what is under way.
    fn finish_work(&mut self, applied: &mut Applied) -> Result<(), Error> {
        loop {
            match std::mem::replace(&mut self.work, Work::Idle) {
                Work::Idle => return Ok(()),
                Work::Running(task) => self.end_task(applied, task)?,
                Work::Swapping(moves) => self.swap(applied, moves, usize::MAX),
            }
        }
    }

    fn begin_checkpoint(&mut self, applied: &Applied, state: Vec<u8>) -> Job {
        let (index, log_view) = (&applied.index, &applied.parts.records.log_view);
        let accounting = &log_view.accounting;
        // Replay skips the entries that are applied now, so none of them may become longer.
        log_view.log.seal_last_group();
        let segments = log_view.log.segments();
        let replay_position = self.replay_or_kept_position(applied, &segments);
        let dead = self.dead_segments(applied, &segments, replay_position);
        let is_kept = |segment| !dead.contains(&segment);
        // The index serves the history in these segments from now on.
        log_view.raise_floor(accounting.live.lock().last_main_in(&dead) + 1);
        self.condemned.retain(|&id| is_kept(id));
        self.wanted = false;
        if !dead.is_empty() {
            // Other garbage may be worth collecting now.
            self.looked_at = i64::MIN;
        }
        self.last_begun = index.applied_position;
        self.last_number += 1;
        let mut hard_state = *accounting.hard_state.lock();
        // Beyond the applied index this log may still hold other entries than the majority;
        // these must not pass for committed when it is opened.
        hard_state.commit = hard_state.commit.min(index.applied_index);
        let head = Head {
            applied_term: index.applied_term,
            applied_index: index.applied_index,
            applied_position: index.applied_position,
            replay_position,
            revision: index.revision,
            compacted: index.compacted,
            log_floor: log_view.floor(),
            hard_state,
            effects_since: match index.sums.off {
                true => index.applied_index,
                false => index.sums.since,
            },
            effects: index.sums.effects,
        };
        let mut marks = accounting.marks.lock().clone();
        marks.retain(is_kept);
        let mut overruled = accounting.overruled.lock().clone();
        overruled.retain(is_kept);
        let live = accounting.live.lock();
        let segments = live.iter().filter(|&(id, _)| is_kept(id)).collect();
        drop(live);
        Job {
            parts: Arc::clone(&applied.parts),
            number: self.last_number,
            head,
            state,
            segments,
            marks,
            overruled,
            dead,
            paced: false,
            ends_at: None,
        }
    }

    /// Sealed segments that nothing points into, that replay does not need and
    /// that have no history above the compacted revision (or are condemned).
    fn dead_segments(
        &self,
        applied: &Applied,
        segments: &[SegmentInfo],
        replay: Position,
    ) -> Vec<u32> {
        let live = applied.parts.records.log_view.accounting.live.lock();
        let is_replayed = |segment: &SegmentInfo| {
            segment.kind == SegmentKind::Log && segment.id >= replay.segment()
        };
        segments
            .iter()
            .filter(|segment| !is_replayed(segment) && self.is_dead(&applied.index, &live, segment))
            .map(|segment| segment.id)
            .collect()
    }

    fn is_dead(&self, index: &Index, live: &Live, segment: &SegmentInfo) -> bool {
        let life = live.of(segment.id);
        segment.sealed
            && life.live_bytes == 0
            && match segment.kind {
                // One that is being filled is not accounted for yet.
                SegmentKind::Sorted => live.has(segment.id),
                SegmentKind::Log => {
                    life.last_main < index.compacted.max(1) || self.condemned.contains(&segment.id)
                }
            }
    }

    /// Where the log is to be replayed from: the frame of the last applied
    /// batch, so that opening goes straight there. If its segment, and
    /// perhaps some behind it, is applied to its end and dead otherwise, replay begins
    /// at the segment that follows, so that these can be released.
    fn replay_position(&self, applied: &Applied, segments: &[SegmentInfo]) -> Position {
        let index = &applied.index;
        let live = applied.parts.records.log_view.accounting.live.lock();
        let frame = index.applied_position;
        let is_needed = |segment: &&SegmentInfo| {
            let is_applied = segment.last_tag.index <= index.applied_index;
            segment.kind == SegmentKind::Log
                && segment.id >= frame.segment()
                && !(is_applied && self.is_dead(index, &live, segment))
        };
        let first = segments.iter().filter(is_needed).map(|it| it.id).min();
        let first = first.expect("the segment that is written is never released");
        frame.max(Position::new(first, 0))
    }

    /// The log from here on stays at the next checkpoint: for a replay, or for members that are behind.
    fn replay_or_kept_position(&self, applied: &Applied, segments: &[SegmentInfo]) -> Position {
        let replay = self.replay_position(applied, segments);
        self.kept_from.map_or(replay, |kept| replay.min(kept))
    }

    /// Stops background work and waits for its thread: the thread holds a handle, which would
    /// keep the directory locked.
    pub(crate) fn end(&mut self, lifecycle: &Lifecycle) {
        lifecycle.stop();
        if let Work::Running(task) = std::mem::replace(&mut self.work, Work::Idle)
            && task.has_panicked()
        {
            tracing::warn!("maintenance ended in a panic while the engine was closing");
        }
    }
}
