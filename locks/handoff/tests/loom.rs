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

use model::{clock, cores, counts, futex, hints, patience, process, slices, spinning, sync};

mod checker {
    use std::cell::Cell;

    pub use loom::{cell, hint, lazy_static, sync, thread};

    /// One poll: more would add no new interleavings.
    pub const LOOKS: u32 = 1;
    pub const CORES: u32 = 1;

    pub fn core_here() -> u32 {
        0
    }

    /// Conditions that are always true in a model, or never.
    #[derive(Clone, Copy, Default)]
    pub struct Always {
        pub a_turn_has_come: bool,
        pub a_slice_is_over: bool,
        pub a_core_is_free: bool,
    }

    thread_local! {
        /// Models of one test run on one thread of the system, one after the other.
        static ALWAYS: Cell<Always> = Cell::default();
    }

    pub fn set(always: Always) {
        ALWAYS.set(always);
    }

    pub fn a_turn_has_come() -> bool {
        ALWAYS.get().a_turn_has_come
    }

    pub fn a_slice_is_over() -> bool {
        ALWAYS.get().a_slice_is_over
    }

    pub fn a_core_is_free() -> bool {
        ALWAYS.get().a_core_is_free
    }

    pub fn time_is_up() -> bool {
        true
    }

    /// Nothing: loom tries every step of the other threads anyway.
    pub fn pause() {}
}

use std::sync::Arc;

use checker::Always;
use condition::{Condition, Wake};
use futex::Deadline;
use lock::Lock;
use loom::cell::UnsafeCell;
use loom::thread;
use model::committed::Committed;

/// A lock, and a number that only its holder may access.
struct Guarded {
    lock: Lock,
    changed: Condition,
    value: UnsafeCell<u32>,
}

// SAFETY: the lock protects the value, which is what the models check by loom's cell.
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
        // SAFETY: the caller holds the lock.
        self.value.with_mut(|value| unsafe { *value += number });
    }

    fn value(&self) -> u32 {
        // SAFETY: the caller holds the lock.
        self.value.with(|value| unsafe { *value })
    }

    fn locked_add(&self) {
        self.lock.lock();
        self.add(1);
        // SAFETY: this thread holds the lock.
        unsafe { self.lock.unlock() };
    }

    fn fairly_locked_add(&self) {
        self.lock.lock();
        self.add(1);
        // SAFETY: this thread holds the lock.
        unsafe { self.lock.unlock_fair() };
    }

    fn impatient_add(&self) -> u32 {
        let entered = self.lock.lock_until(&Deadline);
        if entered {
            self.add(1);
            // SAFETY: this thread holds the lock.
            unsafe { self.lock.unlock() };
        }
        u32::from(entered)
    }

    fn locked_value(&self) -> u32 {
        self.lock.lock();
        let value = self.value();
        // SAFETY: this thread holds the lock.
        unsafe { self.lock.unlock() };
        value
    }

    /// Waits until the value is above 0, and takes 1 away.
    fn take(&self) {
        self.lock.lock();
        while self.value() == 0 {
            // SAFETY: this thread holds the lock.
            unsafe { self.changed.wait(&self.lock, None) };
        }
        self.value.with_mut(|value| {
            // SAFETY: this thread holds the lock.
            unsafe { *value -= 1 };
        });
        // SAFETY: this thread holds the lock.
        unsafe { self.lock.unlock() };
    }

    /// Waits once, with a deadline that has passed.
    fn wait_impatiently(&self) -> Wake {
        self.lock.lock();
        // SAFETY: this thread holds the lock.
        let wake = unsafe { self.changed.wait(&self.lock, Some(&Deadline)) };
        self.value();
        // SAFETY: this thread holds the lock.
        unsafe { self.lock.unlock() };
        wake
    }
}

/// Set in a process that runs one test alone.
const ALONE: &str = "INKSTONE_TEST_ALONE";

/// Runs the models of a test in another process, which runs the whole test: a test calls this once. Each
/// schedule maps and unmaps the stacks of its threads, for which two tests in one process would wait for each
/// other in the kernel.
fn alone(models: impl FnOnce()) {
    let here = std::thread::current();
    // The main thread has no test beside it, and does not know the name of this one.
    let test = here.name().filter(|name| *name != "main");
    let Some(test) = test.filter(|_| std::env::var_os(ALONE).is_none()) else {
        return models();
    };
    let own = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(own);
    let output = command.args(["--exact", test]).env(ALONE, "1").output();
    let output = output.unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{test}, {}:\n{said}", output.status);
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Checks a model with and without turns and spinners, and with slices that end in the simplest
/// and the most complex of these combinations.
fn check_all_ways(preemptions: usize, model: impl Fn() + Sync + Send + Clone + 'static) {
    alone(|| {
        for (a_turn_has_come, a_core_is_free, a_slice_is_over) in [
            (false, false, false),
            (false, true, false),
            (true, false, false),
            (true, true, false),
            (false, false, true),
            (true, true, true),
        ] {
            checker::set(Always {
                a_turn_has_come,
                a_slice_is_over,
                a_core_is_free,
            });
            check(preemptions, model.clone());
        }
    });
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
fn a_fair_unlock_hands_over_and_loses_no_waiter() {
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
fn a_fair_unlock_and_a_time_out_lose_no_waiter() {
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
            // SAFETY: this thread holds the lock.
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
        // SAFETY: this thread holds the lock.
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
fn notify_all_reaches_all_waiters() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let waiters =
            [shared.clone(), shared.clone()].map(|shared| thread::spawn(move || shared.take()));
        shared.lock.lock();
        shared.add(2);
        shared.changed.notify_all();
        // SAFETY: this thread holds the lock.
        unsafe { shared.lock.unlock() };
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(shared.locked_value(), 0);
    });
}

#[test]
fn a_notification_is_received_even_if_the_deadline_has_passed() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let (impatient, locker) = (shared.clone(), shared.clone());
        let impatient = thread::spawn(move || impatient.wait_impatiently());
        let locker = thread::spawn(move || locker.locked_add());
        shared.lock.lock();
        let notified = shared.changed.notify_one();
        // SAFETY: this thread holds the lock.
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
fn a_notification_is_not_spent_on_a_waiter_that_is_leaving() {
    check_all_ways(2, || {
        let shared = Guarded::new();
        let (impatient, patient) = (shared.clone(), shared.clone());
        let impatient = thread::spawn(move || {
            // A waiter that has no use for a notification passes it on, as callers have to.
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

fn check_commits(preemptions: usize, threads: u32, each: u32) {
    let model = move || {
        let shared = Committed::new();
        let others: Vec<_> = (1..threads)
            .map(|thread| {
                let shared = shared.clone();
                thread::spawn(move || {
                    (0..each).for_each(|number| shared.commit(thread * each + number));
                })
            })
            .collect();
        (0..each).for_each(|number| shared.commit(number));
        for other in others {
            other.join().unwrap();
        }
        shared.assert_complete(threads * each);
    };
    alone(|| {
        // A commit queue has no turns and no slices.
        for a_core_is_free in [false, true] {
            checker::set(Always {
                a_core_is_free,
                ..Always::default()
            });
            check(preemptions, model);
        }
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
