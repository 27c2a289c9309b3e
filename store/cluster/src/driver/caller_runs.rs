//! Callers run the replica on their own threads.
//!
//! ```text
//!   caller ──► replica is free: caller runs it ──► page cache ──► replica ──► answer
//!         └──► another thread runs it: inbox ──► that thread takes it from there ──► answer
//!                                          └──► replica is free again and the caller
//!                                               is awake: caller runs it
//!   replica thread: ticks, upkeep, asynchronous requests, and commands that callers left
//! ```
//!
//! This is for a member without peers that does not wait for the device. A command then
//! costs a few microseconds, less than the waking of another thread; and commands that
//! arrive together share the cost of a batch.
//!
//! A waiting caller stays awake for a while and yields its core to other threads
//! ([`Patience`], docs/decisions/0013-callers-work.md). When it falls asleep, it leaves its
//! command to an awake caller or to the replica thread.
//!
//! Invariant: only the thread that holds the replica takes from the inbox, and it keeps the
//! replica until everything taken is done. So commands are evaluated in the order in which
//! they arrived.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use handoff::Patience;
use revisions::{Command, Response, WatchHub};

use super::Driver;
use crate::Error;
use crate::awaited::CanWait;
use crate::inbox::{Arrived, Inbox};
use crate::lock::lock;
use crate::wake_batcher::Pending;

/// After this many rounds of work for the inbox a caller leaves the rest to other awake
/// callers, or to the replica thread.
const LOOKS_MAX: usize = 16;

/// The driver; `None` when the node has ended, or while a thread runs it.
type ParkedDriver = Option<Box<Driver>>;

/// The driver, and the callers that want to run it.
pub(crate) struct CallerRuns {
    driver: Mutex<ParkedDriver>,
    inbox: Arc<Inbox>,
    watches: Arc<WatchHub>,
    /// Callers that found another thread at work. A panic of a caller ends the node, so the
    /// count need not be right afterwards.
    waiting: AtomicUsize,
    /// Those of them that are awake; some may be at work by now.
    awake: AtomicUsize,
}

impl CallerRuns {
    pub(crate) fn new(driver: Driver) -> CallerRuns {
        CallerRuns {
            inbox: Arc::clone(&driver.inbox),
            watches: Arc::clone(driver.replica.reader().watch_hub()),
            driver: Mutex::new(Some(Box::new(driver))),
            waiting: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
        }
    }

    /// Evaluates, writes and applies a command, and returns its answer. This thread does the
    /// work, or another one that runs the replica and checks the inbox again before it ends.
    pub(crate) fn carry_out(&self, command: Command) -> Result<Response, Error> {
        if let Some(mut parked) = self.try_lock() {
            let proposed = self.inbox.propose_quietly(command);
            self.attend(&mut parked);
            drop(parked);
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

    /// Waits until another thread has carried out the command, or carries it out once the
    /// replica is free.
    fn wait_awake(&self, command: Command, patience: Patience) -> Result<Response, Error> {
        self.awake.fetch_add(1, Ordering::SeqCst);
        let looked = self.inbox.propose_quietly(command).map(|mut pending| {
            let answer = self.look_for(&mut pending, patience);
            (pending, answer)
        });
        let was_last = self.awake.fetch_sub(1, Ordering::SeqCst) == 1;
        // A caller that leaves work to awake callers wakes no thread for it: one of them does
        // the work, or the last of them wakes the replica thread. This call must follow the
        // decrement of `awake`: a caller that leaves work after that sees no awake caller and
        // wakes the thread itself.
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
            let parked = self.try_lock();
            // A thread gives its answers before it frees the replica. So if the lock is
            // held here, a missing answer means that the command is not carried out.
            let mut answer = pending.look();
            if answer.is_none()
                && let Some(mut parked) = parked
            {
                self.attend(&mut parked);
                answer = pending.look();
            }
            if answer.is_some() {
                patience.was_answered();
                return answer;
            }
            if !patience.yield_core() {
                return pending.look();
            }
        }
    }

    /// Runs the replica thread: it does what is due by the clock, upkeep, and requests that
    /// no caller carries out.
    pub(crate) fn run(&self) {
        while let Some(idle) = self.idle_for() {
            self.inbox.wait(idle);
            let mut parked = lock(&self.driver);
            self.work(&mut parked, Arrived::default());
            if self.inbox.is_stopped()
                && let Some(mut driver) = parked.take()
            {
                // Since the stop no request is accepted, so these are the last ones.
                driver.step(self.inbox.take(Duration::ZERO, CanWait::default()));
                driver.finish();
            }
        }
    }

    /// How long the replica thread may sleep; `None` if the node has ended.
    fn idle_for(&self) -> Option<Duration> {
        lock(&self.driver).as_ref().map(|driver| driver.idle_for())
    }

    /// `None` if another thread is at work.
    fn try_lock(&self) -> Option<MutexGuard<'_, ParkedDriver>> {
        match self.driver.try_lock() {
            Ok(parked) => Some(parked),
            Err(TryLockError::Poisoned(parked)) => Some(parked.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Processes the inbox and what is due by the clock.
    fn attend(&self, parked: &mut ParkedDriver) {
        let arrived = self.inbox.attend().unwrap_or_default();
        self.work(parked, arrived);
    }

    /// Processes `arrived`, and what arrives during the work, until the inbox is empty or
    /// `LOOKS_MAX` is reached.
    fn work(&self, parked: &mut ParkedDriver, mut arrived: Arrived) {
        let Some(mut driver) = parked.take() else {
            self.inbox.end_attendance();
            return;
        };
        let latch = PanicLatch(self);
        let mut looks = 0;
        loop {
            driver.step(arrived);
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
        if driver.idle_for().is_zero() {
            self.inbox.wake();
        } else if looks == LOOKS_MAX && self.awake.load(Ordering::SeqCst) == 0 {
            self.inbox.announce();
        }
        drop(latch);
        *parked = Some(driver);
    }
}

/// Ends the node if the thread at work panics, so that no caller waits for it.
struct PanicLatch<'a>(&'a CallerRuns);

impl Drop for PanicLatch<'_> {
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
    use crate::driver::tests::a_driver;

    /// A time limit so generous that a test hangs if a thread is not woken.
    const GENEROUS: Duration = Duration::from_secs(1 << 25);

    fn caller_runs() -> CallerRuns {
        let mut driver = a_driver();
        driver.replica.write_itself();
        CallerRuns::new(driver)
    }

    fn put() -> Command {
        Command::Put(PutRequest {
            key: "key".into(),
            ..PutRequest::default()
        })
    }

    #[test]
    fn a_caller_that_falls_asleep_wakes_the_replica_thread() {
        let runs = caller_runs();
        scope(|scope| {
            let mut parked = lock(&runs.driver);
            let thread = scope.spawn(|| runs.inbox.wait(GENEROUS));
            while !runs.inbox.is_slept_on() {
                yield_now();
            }
            let caller = scope.spawn(|| runs.carry_out(put()));
            thread.join().unwrap();
            assert_eq!(runs.inbox.waiting(), 1, "no thread has carried it out");
            assert_eq!(runs.awake.load(Ordering::SeqCst), 0);
            runs.attend(&mut parked);
            caller.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_refused_caller_wakes_the_thread_for_commands_that_were_left() {
        let runs = caller_runs();
        scope(|scope| {
            let _parked = lock(&runs.driver);
            let thread = scope.spawn(|| runs.inbox.wait(GENEROUS));
            while !runs.inbox.is_slept_on() {
                yield_now();
            }
            let _taken = runs.inbox.propose_quietly(put()).unwrap();
            let _arrived = runs.inbox.attend().unwrap();
            let _left = runs.inbox.propose_quietly(put()).unwrap();
            runs.inbox.close(Error::Stopped);
            assert!(runs.inbox.is_slept_on(), "a thread will look again");
            runs.inbox.end_attendance();
            assert!(matches!(runs.carry_out(put()), Err(Error::Stopped)));
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_caller_that_finds_the_replica_free_runs_it() {
        let runs = caller_runs();
        for _ in 0..100 {
            runs.carry_out(put()).unwrap();
        }
        let looked = runs.wait_awake(put(), Patience::new(0).unwrap());
        assert!(looked.is_ok());
        assert_eq!(runs.inbox.waiting(), 0);
    }
}
