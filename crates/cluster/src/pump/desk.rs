//! Where the replica works for those who wait on threads of their own: on theirs.
//!
//! ```text
//!   caller ──► nobody is at work: replica ──► page cache ──► replica ──► answer
//!         └──► somebody is: inbox ──► one of its next looks ──► answer
//!   replica thread: time, upkeep, who does not wait, and what a caller left
//! ```
//!
//! For a member alone that waits for no device. A command costs some microseconds
//! then, and waking another thread costs more than that. Where many come at once a
//! group costs less for each, and the thread does it, which nobody else waits for.
//!
//! Invariant: whoever takes from the inbox has the replica and keeps it until that is
//! done, so that commands are evaluated in the order in which they came.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use revisions::{Command, Response, WatchHub};

use super::Pump;
use crate::Error;
use crate::inbox::{Arrived, Inbox};

/// After so many looks into the inbox a caller leaves the rest to the thread.
const LOOKS_MAX: usize = 16;

/// `None`: the node has ended.
type Place = Option<Box<Pump>>;

/// The replica, and those who want to work with it.
pub(crate) struct Desk {
    pump: Mutex<Place>,
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
            watches,
        }
    }

    /// Has a command evaluated, written and applied: by this thread, or by the one that
    /// is at work just now and looks again before it goes.
    pub(crate) fn carry_out(&self, command: Command) -> Result<Response, Error> {
        let Some(mut place) = self.try_lock() else {
            return self.inbox.propose(command)?.wait();
        };
        self.inbox.begin_attendance();
        let proposed = self.inbox.propose(command);
        let arrived = self.inbox.attend().unwrap_or_default();
        self.work(&mut place, arrived);
        drop(place);
        proposed?.wait()
    }

    /// The replica's thread: what time brings about, and whoever does not wait.
    pub(crate) fn run(&self) {
        while let Some(patience) = self.patience() {
            self.inbox.wait(patience);
            let mut place = self.lock();
            self.work(&mut place, Arrived::default());
            if self.inbox.is_stopped()
                && let Some(mut pump) = place.take()
            {
                // Since then nothing is taken in: this is all there will be.
                pump.step(self.inbox.take(Duration::ZERO, None));
                pump.finish();
            }
        }
    }

    /// How long the thread may sleep; `None`: the node has ended.
    fn patience(&self) -> Option<Duration> {
        self.lock().as_ref().map(|pump| pump.idle_for())
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.pump.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: somebody is at work.
    fn try_lock(&self) -> Option<MutexGuard<'_, Place>> {
        match self.pump.try_lock() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(place)) => Some(place.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Does what `arrived` and has come meanwhile, until nothing is left.
    fn work(&self, place: &mut Place, mut arrived: Arrived) {
        let Some(mut pump) = place.take() else {
            return;
        };
        let latch = Latch(self);
        let mut looks = 0;
        loop {
            pump.step(arrived);
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
