//! Where the replica works for those who wait on threads of their own: on theirs.
//!
//! ```text
//!   caller ──► nobody is at work: replica ──► page cache ──► replica ──► answer
//!         └──► somebody is: inbox ──► one of its next looks ──► answer
//!                               └──► nobody any more, and the caller is awake: replica
//!   replica thread: time, upkeep, who does not wait, and what a caller left
//! ```
//!
//! For a member alone that waits for no device. A command costs some microseconds
//! then, and waking another thread costs more than that. Where many come at once a
//! group costs less for each.
//!
//! Those who wait stay awake for a while, and give way to whoever wants their core
//! (`patience.rs`, docs/decisions/0013-callers-work.md). Of those who sleep the thread has
//! the commands done, which nobody else waits for.
//!
//! Invariant: whoever takes from the inbox has the replica and keeps it until that is
//! done, so that commands are evaluated in the order in which they came.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use revisions::{Command, Response, WatchHub};

use super::{Pump, patience};
use crate::Error;
use crate::inbox::{Arrived, Inbox, Pending};

/// After so many looks into the inbox a caller leaves the rest to the thread.
const LOOKS_MAX: usize = 16;

/// `None`: the node has ended.
type Place = Option<Box<Pump>>;

/// The replica, and those who want to work with it.
pub(crate) struct Desk {
    pump: Mutex<Place>,
    inbox: Arc<Inbox>,
    watches: Arc<WatchHub>,
    /// Callers that wait awake, and work when nobody does.
    awake: AtomicUsize,
}

/// One more caller that waits awake, as long as this lives.
struct Awake<'a>(&'a AtomicUsize);

impl<'a> Awake<'a> {
    fn among(others: &'a AtomicUsize) -> Awake<'a> {
        others.fetch_add(1, Ordering::SeqCst);
        Awake(others)
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
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
            awake: AtomicUsize::new(0),
        }
    }

    /// Has a command evaluated, written and applied: by this thread, or by the one that
    /// is at work just now and looks again before it goes.
    pub(crate) fn carry_out(&self, command: Command) -> Result<Response, Error> {
        if let Some(mut place) = self.try_lock() {
            self.inbox.begin_attendance();
            let proposed = self.inbox.propose(command);
            let arrived = self.inbox.attend().unwrap_or_default();
            self.work(&mut place, arrived);
            drop(place);
            proposed?.wait()
        } else if patience::is_lost() {
            self.inbox.propose(command)?.wait()
        } else {
            self.wait_awake(command)
        }
    }

    /// Waits for somebody to carry out the command, or does so once nobody else is at work.
    fn wait_awake(&self, command: Command) -> Result<Response, Error> {
        let awake = Awake::among(&self.awake);
        let looked = self.inbox.propose_quietly(command).map(|mut pending| {
            let answer = self.look_for(&mut pending);
            (pending, answer)
        });
        // In this order: whoever ends its work and leaves some to those who are awake
        // wakes nobody for it.
        drop(awake);
        self.inbox.announce();
        let (pending, answer) = looked?;
        answer.unwrap_or_else(|| pending.wait())
    }

    fn look_for(&self, pending: &mut Pending) -> Option<Result<Response, Error>> {
        for _ in 0..patience::WAYS_GIVEN_MAX {
            let answer = pending.look();
            if answer.is_some() {
                return answer;
            }
            if let Some(mut place) = self.try_lock() {
                self.inbox.begin_attendance();
                let arrived = self.inbox.attend().unwrap_or_default();
                self.work(&mut place, arrived);
            } else if !patience::give_way(self.awake.load(Ordering::Relaxed)) {
                break;
            }
        }
        pending.look()
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
                self.inbox.end_attendance();
                break;
            }
            match self.inbox.attend() {
                Some(more) => arrived = more,
                None => break,
            }
        }
        // What did not come to its end here, somebody awake goes on with, or the thread.
        let leaves_more = looks == LOOKS_MAX && self.awake.load(Ordering::SeqCst) == 0;
        if leaves_more || pump.idle_for().is_zero() {
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
