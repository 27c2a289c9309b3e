//! Callers that wait for a defragmentation, a reclaim of all garbage.
//!
//! One defragmentation is under way at a time, in the steps of upkeep. A caller that asks
//! during one waits for the next, together with all others that do. So everything that is
//! garbage when a caller asks is reclaimed when it gets its answer.

use tokio::sync::oneshot;

use crate::{Error, Replica};

type Asker = oneshot::Sender<Result<(), Error>>;

#[derive(Debug, Default)]
pub(super) struct Defragmenting {
    /// Callers that wait for the defragmentation under way.
    now: Vec<Asker>,
    /// Callers that wait for the next one.
    next: Vec<Asker>,
}

impl Defragmenting {
    pub(super) fn wait(&mut self, askers: Vec<Asker>) {
        self.next.extend(askers);
    }

    /// Begins a defragmentation, if a caller waits and none is under way.
    pub(super) fn begin(&mut self, replica: &mut Replica) {
        if self.next.is_empty() || !self.now.is_empty() {
            return;
        }
        std::mem::swap(&mut self.now, &mut self.next);
        replica.begin_defragmentation();
    }

    /// Answers the waiting callers after a step of upkeep, if that step has ended the
    /// defragmentation or the replica has failed.
    pub(super) fn answer(&mut self, replica: &Replica, outcome: Result<(), Error>) {
        if let Some(failure) = replica.failure() {
            let all = self.now.drain(..).chain(self.next.drain(..));
            return tell(all, &Err(failure.clone()));
        }
        if !replica.is_defragmenting() {
            tell(self.now.drain(..), &outcome);
        }
    }
}

fn tell(askers: impl Iterator<Item = Asker>, outcome: &Result<(), Error>) {
    for asker in askers {
        // A caller that has given up needs no answer.
        let _ = asker.send(outcome.clone());
    }
}
