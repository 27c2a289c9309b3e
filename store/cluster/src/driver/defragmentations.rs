//! Callers that wait for a defragmentation, a reclaim of all garbage.
//!
//! One defragmentation is under way at a time, in the steps of upkeep. A caller that asks
//! during one waits for the next, together with all others that do. So everything that is
//! garbage when a caller asks is reclaimed when it gets its answer.

use crate::Error;
use crate::replica::{Replica, ReplySender};

/// The waiting callers.
#[derive(Debug, Default)]
pub(super) struct Defragmentations {
    /// Callers that wait for the defragmentation under way.
    now: Vec<ReplySender<()>>,
    /// Callers that wait for the next one.
    next: Vec<ReplySender<()>>,
}

impl Defragmentations {
    pub(super) fn wait(&mut self, callers: Vec<ReplySender<()>>) {
        self.next.extend(callers);
    }

    /// Begins a defragmentation, if a caller waits and none is under way.
    pub(super) fn begin(&mut self, replica: &mut Replica) {
        if self.next.is_empty() || !self.now.is_empty() {
            return;
        }
        std::mem::swap(&mut self.now, &mut self.next);
        replica.machine_mut().begin_defragmentation();
    }

    /// Answers the waiting callers after a step of upkeep, if that step has ended the
    /// defragmentation or the replica has failed.
    pub(super) fn answer(&mut self, replica: &Replica, outcome: Result<(), Error>) {
        if let Some(failure) = replica.failure() {
            let all = self.now.drain(..).chain(self.next.drain(..));
            return reply(all, &Err(failure.clone()));
        }
        if !replica.machine().is_defragmenting() {
            reply(self.now.drain(..), &outcome);
        }
    }
}

fn reply(callers: impl Iterator<Item = ReplySender<()>>, outcome: &Result<(), Error>) {
    for caller in callers {
        // A caller that has given up needs no answer.
        let _ = caller.send(outcome.clone());
    }
}
