//! A log without a flush thread: the calling threads do the work.
//!
//! ```text
//!   append ──► buffer ──► work() ──► one turn of the committer, and the
//!                                    segments that are due, without a pool thread
//! ```
//!
//! The code and the order of I/O are the same as with threads, but nothing is written
//! by itself: a simulation decides when a flush happens, and a caller that wants
//! a group in the page cache puts it there without waking another thread.

use std::mem;

use crate::committer::{Committer, PanicLatch};
use crate::log_state::LogState;
use crate::{Appended, Body, Error, Tag};

/// A committer that callers use, and its open buffer.
#[derive(Debug)]
pub(crate) struct CallerCommitter {
    committer: Committer,
    /// The buffer that is open.
    index: usize,
}

impl LogState {
    /// Opens the first buffer of `committer` and lets callers work with it.
    pub fn set_caller_committer(&self, mut committer: Committer) {
        let index = committer.begin();
        let working = CallerCommitter { committer, index };
        let before = self.caller.lock().replace(Box::new(working));
        assert!(before.is_none(), "a log is written by one");
        self.make_due_segments();
    }

    /// One turn, if there is anything to do; nothing on a log with a flush thread.
    pub fn work(&self) {
        if !self.options.worker.is_caller() {
            return;
        }
        let mut caller = self.caller.lock();
        let Some(mut working) = caller.take() else {
            return;
        };
        if working.committer.has_work(working.index) {
            let _latch = PanicLatch(self);
            self.doorbell.attach();
            match working.committer.turn(working.index) {
                Ok(Some(next)) => working.index = next,
                Ok(None) => return,
                Err(error) => return working.committer.fail(&error),
            }
        }
        *caller = Some(working);
        self.make_due_segments();
    }

    /// Bytes of records that the last frame can take; 0 while something else is to be written.
    pub fn room_in_last_frame(&self) -> usize {
        let caller = self.caller.lock();
        let working = caller.as_ref();
        let idle = working.filter(|it| !it.committer.has_work(it.index));
        idle.map_or(0, |working| working.committer.room_in_last_frame())
    }

    /// Puts the records of `body` behind those of the last frame. `None`: nothing was done, and
    /// they need a frame of their own.
    pub fn lengthen(&self, tag: Tag, body: &Body) -> Result<Option<Appended>, Error> {
        let mut caller = self.caller.lock();
        let Some(mut working) = caller.take() else {
            return Ok(None);
        };
        let mut appended = None;
        if !working.committer.has_work(working.index) {
            let _latch = PanicLatch(self);
            self.doorbell.attach();
            match working.committer.lengthen(working.index, tag, body) {
                Ok((next, placed)) => (working.index, appended) = (next, placed),
                Err(error) => {
                    working.committer.fail(&error);
                    return Err(error);
                }
            }
        }
        *caller = Some(working);
        drop(caller);
        self.make_due_segments();
        Ok(appended)
    }

    /// Makes the segments that are due, unless a pool thread thread does that.
    pub fn make_due_segments(&self) {
        if !self.options.worker.pool_has_thread() {
            self.pool.run_due();
        }
    }

    /// Ends a log without a flush thread.
    pub fn end_caller_committer(&self) {
        if self.options.worker.is_caller() {
            self.control.lock().closing = true;
            self.order();
            self.work();
            // `self` and the committer hold each other: this ends the cycle.
            drop(mem::take(&mut *self.caller.lock()));
        }
    }
}
