//! Every interleaving, within a bound of preemptions, of the crate's own sources.
//!
//! `#[path]` compiles the sources here against loom's atomics and cells; the futex is
//! a mutex and a condition variable of loom's, and a deadline has always passed, so
//! that a time-out can come between any two steps of the others.

#![expect(clippy::unwrap_used, reason = "a test")]
#![allow(dead_code, reason = "the models use a part of the sources")]

#[path = "../src/commit_queue.rs"]
mod commit_queue;
#[path = "../src/condition.rs"]
mod condition;
#[path = "../src/guard.rs"]
mod guard;
#[path = "../src/lock.rs"]
mod lock;
mod model;
#[path = "../src/waiters.rs"]
mod waiters;

use model::{clock, counts, hints, process};

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
    pub(crate) use loom::thread::yield_now;

    macro_rules! const_fn {
        ($(#[$attribute:meta])* $visible:vis fn $($rest:tt)*) => {
            $(#[$attribute])* $visible fn $($rest)*
        };
    }
    pub(crate) use const_fn;
}

mod futex {
    use loom::sync::{Condvar, Mutex};

    use crate::sync::{AtomicU32, Ordering};

    pub struct Deadline;

    loom::lazy_static! {
        static ref ROOM: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> bool {
        if deadline.is_some() {
            return false;
        }
        let guard = ROOM.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(ROOM.1.wait(guard).unwrap());
        }
        true
    }

    pub fn wake_one(_word: *const AtomicU32) {
        let _guard = ROOM.0.lock().unwrap();
        ROOM.1.notify_all();
    }
}

mod spinning {
    use std::cell::Cell;

    thread_local! {
        static ALLOWED: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether there is always a free core, or never.
    pub fn allow(allowed: bool) {
        ALLOWED.set(allowed);
    }

    /// One look: more are only more of the same.
    pub struct Spin;

    impl Spin {
        pub fn begin(_is_heir: bool) -> Option<Spin> {
            ALLOWED.get().then_some(Spin)
        }

        /// What is watched is one look, too.
        pub fn for_a_notification() -> Option<Spin> {
            Spin::begin(false)
        }

        pub fn was_worth_it(_worth: bool) {}

        pub fn extend(&mut self) {}

        pub fn again(&mut self) -> bool {
            false
        }
    }

    pub fn give_way() {}

    pub fn cores() -> u32 {
        1
    }
}

use std::sync::Arc;

use commit_queue::CommitQueue;
use condition::{Condition, Wake};
use futex::Deadline;
use lock::Lock;
use loom::cell::UnsafeCell;
use loom::thread;

/// A lock with a number that nobody may touch without it.
struct Guarded {
    lock: Lock,
    changed: Condition,
    value: UnsafeCell<u32>,
}

// SAFETY: what the models are about; loom tells when it is not so.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded {
            lock: Lock::new(),
            changed: Condition::new(),
            value: UnsafeCell::new(0),
        })
    }

    fn add(&self, number: u32) {
        // SAFETY: inside the lock.
        self.value.with_mut(|value| unsafe { *value += number });
    }

    fn value(&self) -> u32 {
        // SAFETY: inside the lock.
        self.value.with(|value| unsafe { *value })
    }

    fn locked_add(&self) {
        self.lock.lock();
        self.add(1);
        // SAFETY: inside.
        unsafe { self.lock.unlock() };
    }

    fn fairly_locked_add(&self) {
        self.lock.lock();
        self.add(1);
        // SAFETY: inside.
        unsafe { self.lock.unlock_fair() };
    }

    fn impatient_add(&self) -> u32 {
        let entered = self.lock.lock_until(&Deadline);
        if entered {
            self.add(1);
            // SAFETY: inside.
            unsafe { self.lock.unlock() };
        }
        u32::from(entered)
    }

    fn locked_value(&self) -> u32 {
        self.lock.lock();
        let value = self.value();
        // SAFETY: inside.
        unsafe { self.lock.unlock() };
        value
    }

    /// Waits until the value is above 0, and takes 1 away.
    fn take(&self) {
        self.lock.lock();
        while self.value() == 0 {
            // SAFETY: inside.
            unsafe { self.changed.wait(&self.lock, None) };
        }
        self.value.with_mut(|value| {
            // SAFETY: inside.
            unsafe { *value -= 1 };
        });
        // SAFETY: inside.
        unsafe { self.lock.unlock() };
    }

    /// Waits once, not at all long.
    fn wait_impatiently(&self) -> Wake {
        self.lock.lock();
        // SAFETY: inside.
        let wake = unsafe { self.changed.wait(&self.lock, Some(&Deadline)) };
        self.value();
        // SAFETY: inside.
        unsafe { self.lock.unlock() };
        wake
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// With and without turns, with and without spinners.
fn check_all_ways(preemptions: usize, model: impl Fn() + Sync + Send + Clone + 'static) {
    for due in [false, true] {
        for spins in [false, true] {
            clock::set_always_due(due);
            spinning::allow(spins);
            check(preemptions, model.clone());
        }
    }
}

#[test]
fn two_threads_exclude_each_other_and_both_get_in() {
    check_all_ways(3, || {
        let shared = Guarded::new();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.locked_add();
            other.locked_add();
        });
        shared.locked_add();
        shared.locked_add();
        thread.join().unwrap();
        assert_eq!(shared.locked_value(), 4);
    });
}

#[test]
fn three_threads_exclude_each_other_and_all_get_in() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let threads = [shared.clone(), shared.clone()]
            .map(|shared| thread::spawn(move || shared.locked_add()));
        shared.locked_add();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shared.locked_value(), 3);
    });
}

#[test]
fn a_time_out_and_an_unlock_lose_no_wake_up() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let (impatient, patient) = (shared.clone(), shared.clone());
        let impatient = thread::spawn(move || impatient.impatient_add());
        let patient = thread::spawn(move || patient.locked_add());
        shared.locked_add();
        patient.join().unwrap();
        let entered = impatient.join().unwrap();
        assert_eq!(shared.locked_value(), 2 + entered);
    });
}

#[test]
fn a_fair_unlock_hands_over_and_loses_nobody() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let (one, two) = (shared.clone(), shared.clone());
        let one = thread::spawn(move || one.fairly_locked_add());
        let two = thread::spawn(move || two.locked_add());
        shared.fairly_locked_add();
        one.join().unwrap();
        two.join().unwrap();
        assert_eq!(shared.locked_value(), 3);
    });
}

#[test]
fn a_fair_unlock_and_a_time_out_lose_nobody() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let (one, two) = (shared.clone(), shared.clone());
        let one = thread::spawn(move || one.impatient_add());
        let two = thread::spawn(move || two.locked_add());
        shared.fairly_locked_add();
        let entered = one.join().unwrap();
        two.join().unwrap();
        assert_eq!(shared.locked_value(), 2 + entered);
    });
}

#[test]
fn try_lock_excludes_too() {
    check_all_ways(3, || {
        let shared = Guarded::new();
        let other = shared.clone();
        let thread = thread::spawn(move || other.locked_add());
        let entered = shared.lock.try_lock();
        if entered {
            shared.add(1);
            // SAFETY: inside.
            unsafe { shared.lock.unlock() };
        }
        thread.join().unwrap();
        assert_eq!(shared.locked_value(), 1 + u32::from(entered));
    });
}

#[test]
fn a_notification_under_the_lock_reaches_the_waiter() {
    check_all_ways(3, || {
        let shared = Guarded::new();
        let other = shared.clone();
        let waiter = thread::spawn(move || other.take());
        shared.lock.lock();
        shared.add(1);
        shared.changed.notify_one();
        // SAFETY: inside.
        unsafe { shared.lock.unlock() };
        waiter.join().unwrap();
        assert_eq!(shared.locked_value(), 0);
    });
}

#[test]
fn a_notification_after_the_unlock_reaches_the_waiter() {
    check_all_ways(3, || {
        let shared = Guarded::new();
        let other = shared.clone();
        let waiter = thread::spawn(move || other.take());
        shared.locked_add();
        shared.changed.notify_one();
        waiter.join().unwrap();
        assert_eq!(shared.locked_value(), 0);
    });
}

#[test]
fn everybody_is_notified() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let waiters =
            [shared.clone(), shared.clone()].map(|shared| thread::spawn(move || shared.take()));
        shared.lock.lock();
        shared.add(2);
        shared.changed.notify_all();
        // SAFETY: inside.
        unsafe { shared.lock.unlock() };
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(shared.locked_value(), 0);
    });
}

#[test]
fn moving_against_a_time_out_against_an_unlock() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let (impatient, locker) = (shared.clone(), shared.clone());
        let impatient = thread::spawn(move || impatient.wait_impatiently());
        let locker = thread::spawn(move || locker.locked_add());
        shared.lock.lock();
        let notified = shared.changed.notify_one();
        // SAFETY: inside.
        unsafe { shared.lock.unlock() };
        locker.join().unwrap();
        let wake = impatient.join().unwrap();
        // A notification that was given is received, even if time is up as well.
        assert_eq!(wake == Wake::Notified, notified);
        assert!(shared.changed.is_abandoned());
        assert_eq!(shared.locked_value(), 1);
    });
}

#[test]
fn a_notification_is_not_spent_on_somebody_who_is_leaving() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let (impatient, patient) = (shared.clone(), shared.clone());
        let impatient = thread::spawn(move || {
            // Whoever was notified in vain passes it on, as users have to.
            if impatient.wait_impatiently() == Wake::Notified {
                impatient.changed.notify_one();
            }
        });
        let patient = thread::spawn(move || patient.take());
        shared.locked_add();
        shared.changed.notify_one();
        patient.join().unwrap();
        impatient.join().unwrap();
        assert_eq!(shared.locked_value(), 0);
    });
}

fn commit(queue: &CommitQueue<u32, u32>, log: &UnsafeCell<Vec<u32>>, operation: u32) {
    let answer = queue.commit(operation, |group| {
        for member in group {
            let operation = member.take_operation();
            // SAFETY: one leader at a time, or loom tells.
            log.with_mut(|log| unsafe { (*log).push(operation) });
            member.answer(operation + 100);
        }
    });
    assert_eq!(answer, Ok(operation + 100));
}

struct Committed {
    queue: CommitQueue<u32, u32>,
    log: UnsafeCell<Vec<u32>>,
}

// SAFETY: the log is the leader's.
unsafe impl Sync for Committed {}
// SAFETY: as above.
unsafe impl Send for Committed {}

fn check_commits(preemptions: usize, threads: u32, each: u32) {
    check_all_ways(preemptions, move || {
        let shared = Arc::new(Committed {
            queue: CommitQueue::new(),
            log: UnsafeCell::new(Vec::new()),
        });
        let others: Vec<_> = (1..threads)
            .map(|thread| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for number in 0..each {
                        commit(&shared.queue, &shared.log, thread * each + number);
                    }
                })
            })
            .collect();
        for number in 0..each {
            commit(&shared.queue, &shared.log, number);
        }
        for other in others {
            other.join().unwrap();
        }
        // SAFETY: everybody has gone.
        let mut log = shared.log.with(|log| unsafe { (*log).clone() });
        log.sort_unstable();
        assert!(log.into_iter().eq(0..threads * each));
    });
}

#[test]
fn two_threads_commit_twice() {
    check_commits(3, 2, 2);
}

#[test]
fn three_threads_commit_in_groups() {
    check_commits(2, 3, 1);
}
