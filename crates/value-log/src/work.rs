//! A log without a flush thread: whoever calls does the work.
//!
//! ```text
//!   append ──► buffer ──► work() ──► one turn of the committer, and the
//!                                    segments that are due, without a maker
//! ```
//!
//! The same code and the same order of I/O as with threads, only that nothing is
//! written by itself: a simulation decides when a flush comes true, and whoever wants
//! a group in the page cache puts it there without waking anybody.

use std::mem;
use std::sync::{MutexGuard, PoisonError};

use crate::committer::{Committer, PanicLatch};
use crate::shared::Shared;

/// What the flush thread would own.
#[derive(Debug)]
pub(crate) struct Hands {
    committer: Committer,
    /// The buffer that is open.
    index: usize,
}

impl Shared {
    fn caller(&self) -> MutexGuard<'_, Option<Box<Hands>>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on callers work with this.
    pub fn hire(&self, mut committer: Committer) {
        let index = committer.begin();
        let hands = Hands { committer, index };
        let before = self.caller().replace(Box::new(hands));
        assert!(before.is_none(), "a log is written by one");
        self.lend_a_hand();
    }

    /// One turn, if there is anything to do; nothing on a log with a flush thread.
    pub fn work(&self) {
        if !self.options.worker.is_caller() {
            return;
        }
        let mut caller = self.caller();
        let Some(mut hands) = caller.take() else {
            return;
        };
        if hands.committer.has_work(hands.index) {
            let _latch = PanicLatch(self);
            self.doorbell.attach();
            match hands.committer.turn(hands.index) {
                Ok(Some(next)) => hands.index = next,
                Ok(None) => return,
                Err(error) => return hands.committer.fail(&error),
            }
        }
        *caller = Some(hands);
        self.lend_a_hand();
    }

    /// The committer needs what the maker has not made: without a maker it
    /// does that itself.
    pub fn lend_a_hand(&self) {
        if !self.options.worker.has_maker() {
            self.supply.run_due();
        }
    }

    /// Ends a log without a flush thread.
    pub fn dismiss(&self) {
        if self.options.worker.is_caller() {
            self.control().closing = true;
            self.order();
            self.work();
            // It holds this, and nobody else holds it.
            drop(mem::take(&mut *self.caller()));
        }
    }
}
