//! Work that keeps a store small and its restart short, beside the writes.
//!
//! ```text
//!              ┌─────────────── idle ◄──────────────┐
//!   log grew   │           garbage is worth it      │
//!              ▼                    ▼               │
//!         checkpoint ◄── swap ◄── copy              │
//!         (thread)      (slices) (thread)           │
//!              └── gives back dead segments ────────┘
//! ```
//!
//! [`Applier::maintain`] is a step of this machine. The slow parts run on a
//! thread of their own; what must happen between two batches (beginning a
//! checkpoint, swapping places, sweeping after a compaction) happens in the
//! step, a bounded piece at a time. Garbage is looked for when a sweep is
//! through, although the next one may have begun: compactions may come faster
//! than their sweeps end. A checkpoint costs writing the index, so garbage counts as worth it
//! when it exceeds that and a segment. During a defragmentation `defragment.rs` chooses the
//! next step.

mod defragment;
mod installed;

use crate::apply::Applier;
use crate::checkpoint::Job;
use crate::checkpoint::format::Head;
use crate::live::Live;
use crate::reclaim::{self, Moves, Plan};
use crate::task::Task;
use crate::{Entry, Error, trees};
use defragment::Defragmentation;
use environment::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use value_log::{Position, SegmentInfo, SegmentKind};

/// Pause after upkeep has failed, on a full disk or without a descriptor. Each further failure
/// doubles it, at most `RETRY_DOUBLINGS_MAX` times.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS_MAX: u32 = 5;
/// Places swapped in one step.
const SWAPS_PER_STEP: usize = 4096;

/// Counters since open.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) relocated_bytes: AtomicU64,
    pub(crate) released_segments: AtomicU64,
    pub(crate) swept_versions: AtomicU64,
}

/// The work that is under way.
#[derive(Debug)]
enum Work {
    Idle,
    Copying(Task<Moves>),
    Swapping(Moves),
    /// Sealing the active segment; false: there is no room for the next.
    Rotating(Task<bool>),
    Checkpoint(Task<u64>),
    /// Giving back the segments of a state that a snapshot has replaced.
    GivingBack(Task<()>),
}

/// The machine's state, part of the applier.
#[derive(Debug)]
pub(crate) struct Maintenance {
    work: Work,
    /// Number of the next checkpoint.
    next_number: u64,
    /// Bytes of the last checkpoint's file.
    last_bytes: u64,
    /// Applied position at the last checkpoint's beginning.
    last_begun: Position,
    /// The last swept compaction when garbage was last looked for.
    looked_at: i64,
    /// A checkpoint should follow, whatever the log's length.
    wanted: bool,
    /// Log segments that were emptied: they are dead even if their history is not compacted.
    condemned: BTreeSet<u32>,
    /// The log from here on is kept for members that are behind.
    kept_from: Option<Position>,
    /// The defragmentation that is under way.
    defragmentation: Option<Defragmentation>,
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

impl Work {
    /// Whether it is on a thread that has not ended.
    fn is_running(&self) -> bool {
        match self {
            Work::Idle | Work::Swapping(_) => false,
            Work::Copying(task) => !task.is_finished(),
            Work::Rotating(task) => !task.is_finished(),
            Work::Checkpoint(task) => !task.is_finished(),
            Work::GivingBack(task) => !task.is_finished(),
        }
    }
}

impl Maintenance {
    pub(crate) fn new(next_number: u64, last_bytes: u64, last_begun: Position) -> Maintenance {
        Maintenance {
            work: Work::Idle,
            next_number,
            last_bytes,
            last_begun,
            looked_at: i64::MIN,
            wanted: false,
            condemned: BTreeSet::new(),
            kept_from: None,
            defragmentation: None,
            retry: Retry::default(),
        }
    }
}

impl Applier {
    /// A step of sweeping, checkpointing and reclaim: does nothing when nothing
    /// is due, and never waits for the disk. Call it in every round of the applying
    /// thread. `state` is asked for the state blob, as of everything applied
    /// so far, when a checkpoint begins. After an error the step is tried
    /// again a second later, then after ever longer pauses.
    pub fn maintain(&mut self, state: &mut dyn FnMut() -> Vec<u8>) -> Result<(), Error> {
        self.sweep_a_slice();
        self.mend_what_is_proved();
        let outcome = self.step(state);
        if outcome.is_err() {
            // The failed work is looked for again.
            let now = self.engine.0.options.clock.now();
            self.maintenance.retry.note_failure(now);
            self.maintenance.wanted = true;
            self.maintenance.looked_at = i64::MIN;
        }
        self.end_defragmentation_if_failed(outcome)
    }

    fn step(&mut self, state: &mut dyn FnMut() -> Vec<u8>) -> Result<(), Error> {
        if self.maintenance.work.is_running() {
            return Ok(());
        }
        match std::mem::replace(&mut self.maintenance.work, Work::Idle) {
            Work::Idle => trees::free_replaced(&mut self.index.writer),
            Work::Swapping(moves) => {
                self.swap(moves, SWAPS_PER_STEP);
                return Ok(());
            }
            Work::Copying(task) => return self.end_copy(task),
            Work::Rotating(task) => self.end_rotation(task)?,
            Work::Checkpoint(task) => self.end_checkpoint(task)?,
            Work::GivingBack(task) => task.finish()?,
        }
        self.begin_what_is_due(state)
    }

    /// Whether a sweep, a checkpoint or reclaim is under way. False after a call
    /// of [`Applier::maintain`] means that nothing is due either.
    pub fn is_maintaining(&self) -> bool {
        let idle = matches!(self.maintenance.work, Work::Idle);
        let wanted = self.maintenance.wanted && !self.waits_to_retry();
        !idle || wanted || self.is_sweeping() || self.is_defragmenting()
    }

    /// Whether the next call of [`Applier::maintain`] makes progress without waiting for a
    /// thread to end.
    pub fn has_a_step_to_do(&self) -> bool {
        let ready = match self.maintenance.work {
            Work::Idle => self.is_defragmenting(),
            Work::Swapping(_) => true,
            _ => false,
        };
        ready || self.is_sweeping()
    }

    /// Whether compacted versions are left to drop: then every call of [`Applier::maintain`]
    /// drops some. False while an [`crate::Export`] holds the sweep back.
    pub fn is_sweeping(&self) -> bool {
        self.sweep.is_some() && !self.is_held_back()
    }

    fn begin_what_is_due(&mut self, state: &mut dyn FnMut() -> Vec<u8>) -> Result<(), Error> {
        if self.is_defragmenting() {
            return self.defragment_further(state);
        }
        if self.waits_to_retry() {
            return Ok(());
        }
        if self.checkpoint_is_due() {
            return self.start_checkpoint(state());
        }
        if !self.has_news_of_garbage() {
            return Ok(());
        }
        self.maintenance.looked_at = self.swept();
        let plan = Plan::worthwhile(&self.engine.0, &self.index);
        if plan.victims.is_empty() {
            self.maintenance.wanted = plan.pays;
            return Ok(());
        }
        self.start_copy(plan)
    }

    /// Whether the pause after a failure is not over.
    fn waits_to_retry(&self) -> bool {
        let retry = &self.maintenance.retry;
        retry.at.is_some() && !retry.is_due(self.engine.0.options.clock.now())
    }

    fn start_checkpoint(&mut self, state: Vec<u8>) -> Result<(), Error> {
        let mut job = self.begin_checkpoint(state)?;
        job.paced = true;
        let worker = self.engine.0.options.worker;
        let task = Task::start(worker, "engine-checkpoint", move || job.run())?;
        self.maintenance.work = Work::Checkpoint(task);
        Ok(())
    }

    fn start_copy(&mut self, plan: Plan) -> Result<(), Error> {
        let throttled = !self.is_defragmenting();
        let shared = Arc::clone(&self.engine.0);
        let copy = move || reclaim::copy(&shared, plan, throttled);
        let worker = self.engine.0.options.worker;
        self.maintenance.work = Work::Copying(Task::start(worker, "engine-reclaim", copy)?);
        Ok(())
    }

    fn end_checkpoint(&mut self, task: Task<u64>) -> Result<(), Error> {
        self.maintenance.last_bytes = task.finish()?;
        self.maintenance.retry = Retry::default();
        Ok(())
    }

    fn end_copy(&mut self, task: Task<Moves>) -> Result<(), Error> {
        let moves = task.finish()?;
        if let Some(defragmentation) = &mut self.maintenance.defragmentation {
            defragmentation.note(&moves);
        }
        self.maintenance.work = Work::Swapping(moves);
        Ok(())
    }

    /// Whether a sweep has come to its end since garbage was last looked for.
    fn has_news_of_garbage(&self) -> bool {
        let swept = self.swept();
        let never_swept = self.sweep.is_some() && swept < 0;
        !never_swept && self.maintenance.looked_at != swept
    }

    fn checkpoint_is_due(&self) -> bool {
        let shared = &self.engine.0;
        let (now, then) = (self.index.applied_position, self.maintenance.last_begun);
        let segments = u64::from(now.segment().saturating_sub(then.segment()));
        let bytes =
            (segments * shared.options.segment_bytes + now.offset()).saturating_sub(then.offset());
        let due_bytes = shared
            .options
            .checkpoint_bytes
            .max(self.maintenance.last_bytes);
        self.maintenance.wanted || bytes >= due_bytes
    }

    /// Swaps at most `at_most` places. After the last one a checkpoint is wanted.
    fn swap(&mut self, mut moves: Moves, at_most: usize) {
        let shared = &self.engine.0;
        let done = moves.swap(&mut self.index.writer, &mut shared.books.live(), at_most);
        self.index.publish(shared);
        if done {
            self.maintenance.condemned.extend(moves.emptied());
            self.maintenance.wanted = true;
            // Garbage is looked for again: this round leaves room for another.
            self.maintenance.looked_at = i64::MIN;
        } else {
            self.maintenance.work = Work::Swapping(moves);
        }
    }

    /// Keeps the log from this entry on, across restarts too, for members that
    /// are behind. `None`: only what a restart needs.
    pub fn keep_entries(&mut self, from: Option<&Entry>) {
        self.maintenance.kept_from = from.map(|entry| entry.start);
    }

    /// Writes a checkpoint now and returns when it is durable. `state` as for
    /// [`Applier::maintain`].
    pub fn checkpoint(&mut self, state: &[u8]) -> Result<(), Error> {
        self.finish_work()?;
        self.write_checkpoint(state)
    }

    fn write_checkpoint(&mut self, state: &[u8]) -> Result<(), Error> {
        self.maintenance.last_bytes = self.begin_checkpoint(state.to_vec())?.run()?;
        Ok(())
    }

    /// Waits for what is under way.
    fn finish_work(&mut self) -> Result<(), Error> {
        loop {
            match std::mem::replace(&mut self.maintenance.work, Work::Idle) {
                Work::Idle => return Ok(()),
                Work::Copying(task) => self.end_copy(task)?,
                Work::Rotating(task) => self.end_rotation(task)?,
                Work::Swapping(moves) => self.swap(moves, usize::MAX),
                Work::Checkpoint(task) => self.end_checkpoint(task)?,
                Work::GivingBack(task) => task.finish()?,
            }
        }
    }

    fn begin_checkpoint(&mut self, state: Vec<u8>) -> Result<Job, Error> {
        let shared = Arc::clone(&self.engine.0);
        let segments = shared.log.segments();
        let mut replay_position = self.replay_position(&segments);
        if let Some(kept_from) = self.maintenance.kept_from {
            replay_position = replay_position.min(kept_from);
        }
        let dead = self.dead_segments(&segments, replay_position);
        self.raise_floor(&dead);
        self.maintenance.wanted = false;
        self.maintenance.last_begun = self.index.applied_position;
        self.maintenance.next_number += 1;
        let mut hard_state = *shared.books.hard_state();
        // Beyond the applied index this log may still hold other entries than the majority;
        // these must not pass for committed when it is opened.
        hard_state.commit = hard_state.commit.min(self.index.applied_index);
        let head = Head {
            applied_term: self.index.applied_term,
            applied_index: self.index.applied_index,
            applied_position: self.index.applied_position,
            replay_position,
            revision: self.index.revision,
            compacted: self.index.compacted,
            log_floor: shared.log_floor(),
            hard_state,
        };
        let number = self.maintenance.next_number;
        let mut marks = shared.books.marks().clone();
        marks.retain(|segment| !dead.contains(&segment));
        let mut overruled = shared.books.overruled().clone();
        overruled.retain(|segment| !dead.contains(&segment));
        let lives = shared
            .books
            .live()
            .iter()
            .filter(|(id, _)| !dead.contains(id))
            .collect();
        Ok(Job {
            shared,
            number,
            head,
            state,
            segments: lives,
            marks,
            overruled,
            dead,
            paced: false,
        })
    }

    /// Sealed segments that nothing points into, that replay does not need and
    /// that have no history above the compacted revision (or are condemned).
    fn dead_segments(&self, segments: &[SegmentInfo], replay: Position) -> Vec<u32> {
        let live = self.engine.0.books.live();
        let replayed = |segment: &SegmentInfo| {
            segment.kind == SegmentKind::Log && segment.id >= replay.segment()
        };
        segments
            .iter()
            .filter(|segment| !replayed(segment) && self.is_dead(&live, segment))
            .map(|segment| segment.id)
            .collect()
    }

    fn is_dead(&self, live: &Live, segment: &SegmentInfo) -> bool {
        let life = live.of(segment.id);
        segment.sealed
            && life.live_bytes == 0
            && match segment.kind {
                // One that is being filled is not in the books yet.
                SegmentKind::Sorted => live.has(segment.id),
                SegmentKind::Log => {
                    life.last_main < self.index.compacted.max(1)
                        || self.maintenance.condemned.contains(&segment.id)
                }
            }
    }

    /// Where the log is to be replayed from: the frame of the last applied
    /// batch, so that opening goes straight there. If its segment, and
    /// perhaps some behind it, is applied to its end and dead otherwise, replay begins
    /// at the segment that follows, so that these can be given back.
    fn replay_position(&self, segments: &[SegmentInfo]) -> Position {
        let mut logs: Vec<&SegmentInfo> = segments
            .iter()
            .filter(|segment| segment.kind == SegmentKind::Log)
            .collect();
        logs.sort_by_key(|segment| segment.id);
        let live = self.engine.0.books.live();
        let frame = self.index.applied_position;
        let needed = |segment: &&&SegmentInfo| {
            let applied = segment.last_tag.index <= self.index.applied_index;
            segment.id >= frame.segment() && !(applied && self.is_dead(&live, segment))
        };
        let first = logs.iter().find(needed);
        let first = first.expect("the segment that is written is never given back");
        frame.max(Position::new(first.id, 0))
    }

    /// Raises the log floor above the history in `dead` segments: from now on the index serves
    /// that history.
    fn raise_floor(&mut self, dead: &[u32]) {
        let live = self.engine.0.books.live();
        let last_main = dead
            .iter()
            .map(|&id| live.of(id).last_main)
            .max()
            .unwrap_or(0);
        self.engine
            .0
            .log_floor
            .fetch_max(last_main + 1, Ordering::AcqRel);
        self.maintenance.condemned.retain(|id| !dead.contains(id));
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.end_maintenance();
    }
}

impl Applier {
    /// Stops background work and waits for its thread: the thread holds a handle, which would
    /// keep the directory locked.
    pub(crate) fn end_maintenance(&mut self) {
        self.engine.0.stopping.store(true, Ordering::Relaxed);
        let failed = match std::mem::replace(&mut self.maintenance.work, Work::Idle) {
            Work::Idle | Work::Swapping(_) => false,
            Work::Copying(task) => task.has_panicked(),
            Work::Rotating(task) => task.has_panicked(),
            Work::Checkpoint(task) => task.has_panicked(),
            Work::GivingBack(task) => task.has_panicked(),
        };
        if failed {
            tracing::warn!("maintenance ended in a panic while the engine was closing");
        }
    }
}
