//! Where the replica works for those who wait on threads of their own: on theirs.
//!
//! ```text
//!   callers ──► queue ──► whoever leads ──► replica ──► page cache ──► replica ──► answers
//!                         replica thread ──┘  time, upkeep, and who does not wait
//! ```
//!
//! For a member alone that waits for no device. A command costs some microseconds
//! then, and waking another thread costs more than that. The callers that come while one
//! is at work are the next one's group.
//!
//! Invariant: whoever takes from the inbox has the replica and keeps it until that is
//! done, so that what the log says arrives in its order.

use std::sync::Arc;
use std::time::Duration;

use handoff::{CommitQueue, Mutex};
use revisions::{Command, Response, WatchHub};

use super::Pump;
use crate::Error;
use crate::inbox::{Arrived, Inbox, Pending};

/// After so many looks into the inbox a caller leaves the rest to the thread.
const LOOKS_MAX: usize = 16;

/// The replica, and those who want to work with it.
pub(crate) struct Desk {
    /// `None`: the node has ended.
    pump: Mutex<Option<Box<Pump>>>,
    callers: CommitQueue<Command, Result<Pending, Error>>,
    inbox: Arc<Inbox>,
    watches: Arc<WatchHub>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Desk").finish_non_exhaustive()
    }
}

impl Desk {
    pub(crate) fn new(pump: Pump, watches: Arc<WatchHub>) -> Desk {
        Desk {
            inbox: Arc::clone(&pump.inbox),
            pump: Mutex::new(Some(Box::new(pump))),
            callers: CommitQueue::new(),
            watches,
        }
    }

    /// Has a command evaluated, written and applied, by this thread or by another that
    /// does the same just now.
    pub(crate) fn carry_out(&self, command: Command) -> Result<Response, Error> {
        let proposed = self.callers.commit(command, |group| {
            self.inbox.begin_attendance();
            for member in group {
                member.answer(self.inbox.propose(member.take_operation()));
            }
            let mut place = self.pump.lock();
            // Nothing: the thread has done it.
            let arrived = self.inbox.attend().unwrap_or_default();
            self.work(&mut place, arrived);
        });
        // Without an answer the leader has panicked.
        proposed.unwrap_or(Err(Error::Stopped))?.wait()
    }

    /// The replica's thread: what time brings about, and whoever does not wait.
    pub(crate) fn run(&self) {
        while let Some(patience) = self.patience() {
            self.inbox.wait(patience);
            let mut place = self.pump.lock();
            self.work(&mut place, Arrived::default());
            if self.inbox.is_stopped()
                && let Some(mut pump) = place.take()
            {
                pump.finish();
            }
        }
    }

    /// How long the thread may sleep; `None`: the node has ended.
    fn patience(&self) -> Option<Duration> {
        self.pump.lock().as_ref().map(|pump| pump.idle_for())
    }

    /// Does what `arrived` and has come meanwhile, until nothing is left.
    fn work(&self, place: &mut Option<Box<Pump>>, mut arrived: Arrived) {
        let Some(mut pump) = place.take() else {
            return;
        };
        let latch = Latch(self);
        let mut looks = 0;
        loop {
            pump.step(arrived);
            pump.write();
            looks += 1;
            if looks == LOOKS_MAX {
                break;
            }
            match self.inbox.attend() {
                Some(more) => arrived = more,
                None => break,
            }
        }
        // What did not come to its end here, the thread goes on with.
        if looks == LOOKS_MAX || pump.idle_for().is_zero() {
            self.inbox.wake();
        }
        drop(latch);
        *place = Some(pump);
    }
}

/// A broken invariant ends the node, and nobody may wait for it then.
struct Latch<'a>(&'a Desk);

impl Drop for Latch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.inbox.give_up();
            self.0.watches.close();
        }
    }
}
