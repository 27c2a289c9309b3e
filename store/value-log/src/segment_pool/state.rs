//! Segments that the pool has ready, and the failure for which it has no more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::growth::Growth;
use crate::segment::{Segment, SpareFile};
use crate::{Error, SEGMENT_MAX};

/// Pause after a failure before the pool tries again by itself; it doubles with each
/// failure, since an attempt may write much of a segment before it meets a quota.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(8);

/// Changed under the lock; no I/O is done under it.
#[derive(Debug)]
pub(crate) struct PoolState {
    /// The prepared log segment.
    pub next: Option<Arc<Segment>>,
    pub spares: Vec<SpareFile>,
    numbers: Numbers,
    /// The log segment that the next one follows.
    pub active: u32,
    /// Blocks to make ready in the segment that is being written.
    pub growth: Growth,
    /// Why making failed last time.
    pub failure: Option<Error>,
    /// Failures since something was made.
    pub failures: u32,
    /// The last failure came after much had been written: with a pool's thread, callers get
    /// this failure without another attempt until it has paused.
    pub is_costly: bool,
    /// The file system takes no room for bytes that were not written.
    pub cannot_reserve: bool,
    /// Segments made ahead were removed to make room, and none is made for now.
    pub yields: bool,
    /// The committer has asked for room since the last failure, and waits.
    pub awaited: bool,
    /// A flush of the directory failed: no segment is given any more.
    pub stopped: Option<Error>,
    /// Segments to flush, oldest first; the first one may be under way.
    pub unflushed: VecDeque<Arc<Segment>>,
    /// A flush failed: nothing is flushed any more.
    pub flush_failure: Option<Error>,
    /// The pool's thread must end.
    pub stop: bool,
}

/// The numbers to give next.
#[derive(Debug)]
struct Numbers {
    /// Of a spare file.
    spare: u32,
    /// Id of a segment, log or sorted.
    segment: u32,
}

/// The next work of the pool.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// The log comes near the end of the blocks that are ready in this segment: all before this
    /// offset are wanted.
    Grow(Arc<Segment>, u64),
    /// The log needs its next segment.
    Next,
    /// A sealed segment is not flushed yet.
    Flush(Arc<Segment>),
    /// There are too few spares.
    Spare,
}

impl PoolState {
    /// The state to start with: what the directory holds.
    pub fn new(
        next: Option<Arc<Segment>>,
        spares: Vec<SpareFile>,
        (spare, segment): (u32, u32),
        active: u32,
        growth: Growth,
    ) -> PoolState {
        PoolState {
            next,
            spares,
            numbers: Numbers { spare, segment },
            active,
            growth,
            failure: None,
            failures: 0,
            is_costly: false,
            cannot_reserve: false,
            yields: false,
            awaited: false,
            stopped: None,
            unflushed: VecDeque::new(),
            flush_failure: None,
            stop: false,
        }
    }

    /// Whether the next segment is there and takes any group.
    pub fn has_whole_next(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.is_ready())
    }

    /// Segments ready for use, as a whole.
    pub fn ready(&self) -> usize {
        self.spares.len() + usize::from(self.has_whole_next())
    }

    /// Whether it is known that, for now, nothing is made.
    pub fn knows_failure(&self) -> bool {
        self.failure.is_some() || self.stopped.is_some() || self.yields
    }

    /// A flush of a file failed that the log has written to: what it holds is unknown.
    pub fn note_failed_flush(&mut self, error: &Error) {
        self.flush_failure = Some(error.clone());
        self.stopped = Some(error.clone());
    }

    /// Lets making be tried again.
    pub fn forget_failure(&mut self) {
        self.failure = None;
        self.is_costly = false;
    }

    /// Records whether making has failed, and why.
    pub fn note_outcome(&mut self, made: Result<(), Error>) {
        match made {
            Ok(()) => (self.failures, self.is_costly) = (0, false),
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.failure = Some(error);
            }
        }
    }

    /// How long the pool waits after a failure.
    pub fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(8);
        (RETRY_MIN * (1 << doublings)).min(RETRY_MAX)
    }

    /// The job to do next.
    pub fn due(&self, target: usize) -> Option<Job> {
        let makes = self.failure.is_none() && self.stopped.is_none() && !self.yields;
        if makes && let Some((segment, end)) = self.growth.due() {
            return Some(Job::Grow(segment, end));
        }
        if makes && self.next.is_none() && self.growth.wants_segment_behind() {
            return Some(Job::Next);
        }
        if makes && let Some((segment, end)) = self.small_next() {
            return Some(Job::Grow(segment, end));
        }
        if let Some(segment) = self
            .unflushed
            .front()
            .filter(|_| self.flush_failure.is_none())
        {
            return Some(Job::Flush(Arc::clone(segment)));
        }
        let wants_spare = !self.growth.log_is_small && self.ready() < target;
        (makes && wants_spare).then_some(Job::Spare)
    }

    /// A next segment that was made while the log was small, which it is not any more.
    fn small_next(&self) -> Option<(Arc<Segment>, u64)> {
        let next = self.next.as_ref().filter(|_| !self.growth.log_is_small);
        let next = next.filter(|next| !next.is_ready())?;
        Some((Arc::clone(next), next.header.segment_bytes))
    }

    /// The id of the next segment.
    pub fn allocate_id(&mut self) -> Result<u32, Error> {
        if self.numbers.segment > SEGMENT_MAX {
            return Err(Error::Misuse {
                what:
                    "the log has used all 16,777,215 segment numbers; copy it into a new directory"
                        .into(),
            });
        }
        assert!(
            self.numbers.segment > self.active,
            "{self:?} gives a number twice"
        );
        self.numbers.segment += 1;
        Ok(self.numbers.segment - 1)
    }

    /// The number of the next spare file.
    pub fn take_number(&mut self) -> u32 {
        self.numbers.spare += 1;
        self.numbers.spare - 1
    }
}
