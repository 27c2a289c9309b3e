//! A log without threads: whoever calls does the work.
//!
//! ```text
//!   append ──► buffer ──► work() ──► one turn of the committer, and the
//!                                    segments that are due
//! ```
//!
//! The same code and the same order of I/O as with threads, only that nothing
//! happens by itself: a simulation decides when a flush comes true.

use std::mem;
use std::sync::{MutexGuard, PoisonError};

use crate::Worker;
use crate::committer::Committer;
use crate::shared::Shared;

/// What the flush thread would own.
#[derive(Debug)]
pub(crate) struct Hands {
    committer: Committer,
    /// The buffer that is open.
    index: usize,
}

impl Shared {
    fn caller(&self) -> MutexGuard<'_, Option<Hands>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on callers work with this.
    pub fn hire(&self, committer: Committer) {
        let index = committer.begin();
        let before = self.caller().replace(Hands { committer, index });
        assert!(before.is_none(), "a log is written by one");
        self.supply.run_due();
    }

    /// One turn, if there is anything to do; nothing on a log with threads.
    pub fn work(&self) {
        let mut caller = self.caller();
        let Some(hands) = caller.as_mut() else {
            return;
        };
        if hands.committer.has_work(hands.index) {
            match hands.committer.turn(hands.index) {
                Ok(Some(next)) => hands.index = next,
                Ok(None) => *caller = None,
                Err(error) => {
                    hands.committer.fail(&error);
                    *caller = None;
                }
            }
        }
        self.supply.run_due();
    }

    /// The committer needs what the maker has not made: without a maker it
    /// does that itself.
    pub fn lend_a_hand(&self) {
        if self.options.worker == Worker::Caller {
            self.supply.run_due();
        }
    }

    /// Ends a log without threads.
    pub fn dismiss(&self) {
        if self.options.worker == Worker::Caller {
            self.control().closing = true;
            self.order();
            self.work();
            // It holds this, and nobody else holds it.
            drop(mem::take(&mut *self.caller()));
        }
    }
}
