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
//! ([`Patience`], docs/decisions/0013-callers-work.md). Of those who sleep the thread has
//! the commands done, which nobody else waits for.
//!
//! Invariant: whoever takes from the inbox has the replica and keeps it until that is
//! done, so that commands are evaluated in the order in which they came.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use handoff::Patience;
use revisions::{Command, Response, WatchHub};

use super::Pump;
use crate::Error;
use crate::inbox::{Arrived, Inbox, Pending};

/// After so many looks into the inbox a caller leaves the rest to others that are awake, or
/// to the thread.
const LOOKS_MAX: usize = 16;

/// `None`: the node has ended.
type Place = Option<Box<Pump>>;

/// The replica, and those who want to work with it.
pub(crate) struct Desk {
    pump: Mutex<Place>,
    inbox: Arc<Inbox>,
    watches: Arc<WatchHub>,
    /// Callers that found somebody at work. A panic among them ends the node, so nobody minds
    /// that they are not counted out then.
    waiting: AtomicUsize,
    /// Those of them that are awake, at work by now perhaps.
    awake: AtomicUsize,
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
            waiting: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
        }
    }

    /// Has a command evaluated, written and applied: by this thread, now or in a while, or
    /// by one that is at work just now and looks again before it goes.
    pub(crate) fn carry_out(&self, command: Command) -> Result<Response, Error> {
        if let Some(mut place) = self.try_lock() {
            let proposed = self.inbox.propose_quietly(command);
            self.attend(&mut place);
            drop(place);
            proposed?.wait()
        } else {
            let others = self.waiting.fetch_add(1, Ordering::Relaxed);
            let answer = match Patience::new(others) {
                Some(patience) => self.wait_awake(command, patience),
                None => self.inbox.propose(command).and_then(Pending::wait),
            };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            answer
        }
    }

    /// Waits for somebody to carry out the command, or does so once nobody else is at work.
    fn wait_awake(&self, command: Command, patience: Patience) -> Result<Response, Error> {
        self.awake.fetch_add(1, Ordering::SeqCst);
        let looked = self.inbox.propose_quietly(command).map(|mut pending| {
            let answer = self.look_for(&mut pending, patience);
            (pending, answer)
        });
        let was_last = self.awake.fetch_sub(1, Ordering::SeqCst) == 1;
        // Whoever leaves work undone to those who are awake wakes nobody for it: one of them
        // does it, or the last of them has somebody woken. After it is counted out: who
        // leaves work later than that finds nobody awake.
        if was_last || !matches!(looked, Ok((_, Some(_)))) {
            self.inbox.announce();
        }
        let (pending, answer) = looked?;
        answer.unwrap_or_else(|| pending.wait())
    }

    fn look_for(
        &self,
        pending: &mut Pending,
        mut patience: Patience,
    ) -> Option<Result<Response, Error>> {
        loop {
            let place = self.try_lock();
            // Answers are given before the place is free: this look is exact.
            let mut answer = pending.look();
            if answer.is_none()
                && let Some(mut place) = place
            {
                self.attend(&mut place);
                answer = pending.look();
            }
            if answer.is_some() {
                patience.paid_off();
                return answer;
            }
            if !patience.give_way() {
                return pending.look();
            }
        }
    }

    /// The replica's thread: what time brings about, and whoever does not wait.
    pub(crate) fn run(&self) {
        while let Some(idle) = self.idle_for() {
            self.inbox.wait(idle);
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
    fn idle_for(&self) -> Option<Duration> {
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

    /// Does what lies in the inbox, and what time brings.
    fn attend(&self, place: &mut Place) {
        let arrived = self.inbox.attend().unwrap_or_default();
        self.work(place, arrived);
    }

    /// Does what `arrived` and has come meanwhile, until nothing is left.
    fn work(&self, place: &mut Place, mut arrived: Arrived) {
        let Some(mut pump) = place.take() else {
            self.inbox.end_attendance();
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
        if pump.idle_for().is_zero() {
            self.inbox.wake();
        } else if looks == LOOKS_MAX && self.awake.load(Ordering::SeqCst) == 0 {
            self.inbox.announce();
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

#[cfg(test)]
mod tests {
    use std::thread::{scope, yield_now};

    use etcd_api::etcdserverpb::PutRequest;

    use super::*;
    use crate::pump::tests::a_pump;

    /// Whoever is not woken hangs.
    const GENEROUS: Duration = Duration::from_secs(1 << 25);

    fn a_desk() -> Desk {
        let mut pump = a_pump();
        pump.replica.write_itself();
        let watches = Arc::clone(pump.replica.reader().watch_hub());
        Desk::new(pump, watches)
    }

    fn put() -> Command {
        Command::Put(PutRequest {
            key: "key".into(),
            ..PutRequest::default()
        })
    }

    #[test]
    fn whose_patience_ends_has_the_thread_woken() {
        let desk = a_desk();
        scope(|scope| {
            let mut place = desk.lock();
            let thread = scope.spawn(|| desk.inbox.wait(GENEROUS));
            while !desk.inbox.is_slept_on() {
                yield_now();
            }
            let caller = scope.spawn(|| desk.carry_out(put()));
            thread.join().unwrap();
            assert_eq!(desk.inbox.waiting(), 1, "nobody has done it");
            assert_eq!(desk.awake.load(Ordering::SeqCst), 0);
            desk.attend(&mut place);
            caller.join().unwrap().unwrap();
        });
    }

    #[test]
    fn who_is_refused_leaves_nothing_undone() {
        let desk = a_desk();
        scope(|scope| {
            let _place = desk.lock();
            let thread = scope.spawn(|| desk.inbox.wait(GENEROUS));
            while !desk.inbox.is_slept_on() {
                yield_now();
            }
            let _taken = desk.inbox.propose_quietly(put()).unwrap();
            let _arrived = desk.inbox.attend().unwrap();
            let _left = desk.inbox.propose_quietly(put()).unwrap();
            desk.inbox.close(Error::Stopped);
            assert!(desk.inbox.is_slept_on(), "somebody looks again");
            desk.inbox.end_attendance();
            assert!(matches!(desk.carry_out(put()), Err(Error::Stopped)));
            thread.join().unwrap();
        });
    }

    #[test]
    fn who_finds_the_place_free_works() {
        let desk = a_desk();
        for _ in 0..100 {
            desk.carry_out(put()).unwrap();
        }
        let looked = desk.wait_awake(put(), Patience::new(0).unwrap());
        assert!(looked.is_ok());
        assert_eq!(desk.inbox.waiting(), 0);
    }
}
