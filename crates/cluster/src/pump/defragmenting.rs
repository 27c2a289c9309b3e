//! Who waits for all garbage to go.
//!
//! One reclaim of everything goes on at a time, in the steps of upkeep. Who asks
//! during one waits for the next, with all others who do: what is garbage when
//! somebody asks has gone when they are answered.

use tokio::sync::oneshot;

use crate::{Error, Replica};

type Asker = oneshot::Sender<Result<(), Error>>;

#[derive(Debug, Default)]
pub(super) struct Defragmenting {
    /// Whom the one that goes on is for.
    now: Vec<Asker>,
    /// Whom the next one is for.
    next: Vec<Asker>,
}

impl Defragmenting {
    pub(super) fn wait(&mut self, askers: Vec<Asker>) {
        self.next.extend(askers);
    }

    /// Begins one where somebody waits and none goes on.
    pub(super) fn begin(&mut self, replica: &mut Replica) {
        if self.next.is_empty() || !self.now.is_empty() {
            return;
        }
        std::mem::swap(&mut self.now, &mut self.next);
        replica.begin_defragmentation();
    }

    /// Tells those it was for, after a step of upkeep that was its last one.
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
        // Who does not wait any more has lost interest.
        let _ = asker.send(outcome.clone());
    }
}
