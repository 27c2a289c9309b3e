//! The crate's own sources under random schedules, with more threads than loom can try.
//!
//! Whether a deadline has passed, and whether a thread may spin, is random as well.

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
    use shuttle::rand::Rng;

    pub use shuttle::{hint, lazy_static, sync, thread};

    pub const LOOKS: u32 = 3;
    pub const CORES: u32 = 2;

    pub fn core_here() -> u32 {
        chance(0.5).into()
    }

    pub mod cell {
        /// Shuttle does not watch cells.
        pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

        impl<T> UnsafeCell<T> {
            pub fn new(value: T) -> UnsafeCell<T> {
                UnsafeCell(std::cell::UnsafeCell::new(value))
            }

            pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
                read(self.0.get())
            }

            pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
                write(self.0.get())
            }
        }
    }

    fn chance(probability: f64) -> bool {
        shuttle::rand::thread_rng().gen_bool(probability)
    }

    pub fn a_turn_has_come() -> bool {
        chance(0.2)
    }

    pub fn a_slice_is_over() -> bool {
        chance(0.3)
    }

    pub fn a_core_is_free() -> bool {
        chance(0.5)
    }

    pub fn time_is_up() -> bool {
        pause();
        chance(0.3)
    }

    pub fn pause() {
        thread::yield_now();
    }
}

use std::cell::UnsafeCell;
use std::sync::Arc;

use condition::{Condition, Wake};
use futex::Deadline;
use lock::Lock;
use model::committed::Committed;
use shuttle::rand::Rng;
use shuttle::thread;

const THREADS: u32 = 10;

/// A lock, and a number that is wrong at the end if two threads change it at once.
struct Shared {
    lock: Lock,
    not_empty: Condition,
    not_full: Condition,
    value: UnsafeCell<u32>,
}

// SAFETY: the value is accessed by the lock's holder only.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            lock: Lock::new(),
            not_empty: Condition::new(),
            not_full: Condition::new(),
            value: UnsafeCell::new(0),
        })
    }

    fn change(&self, change: impl FnOnce(u32) -> u32) {
        // SAFETY: the caller holds the lock, if the lock is correct.
        let before = unsafe { *self.value.get() };
        // A second holder would change the value here.
        thread::yield_now();
        // SAFETY: as above.
        unsafe { *self.value.get() = change(before) };
    }

    fn value(&self) -> u32 {
        // SAFETY: the caller holds the lock.
        unsafe { *self.value.get() }
    }

    fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe {
            if shuttle::rand::thread_rng().gen_bool(0.1) {
                self.lock.unlock_fair();
            } else {
                self.lock.unlock();
            }
        }
    }

    fn enter(&self) {
        while !match shuttle::rand::thread_rng().gen_range(0..4) {
            0 => self.lock.lock_until(&Deadline),
            1 => self.lock.try_lock(),
            _ => {
                self.lock.lock();
                true
            }
        } {
            thread::yield_now();
        }
    }

    /// Waits, sometimes with a deadline, until `condition` is false.
    fn wait_while(&self, changed: &Condition, condition: impl Fn(u32) -> bool) {
        while condition(self.value()) {
            let impatient = shuttle::rand::thread_rng().gen_bool(0.3);
            // SAFETY: the caller holds the lock.
            let wake = unsafe { changed.wait(&self.lock, impatient.then_some(&Deadline)) };
            assert!(impatient || wake == Wake::Notified);
        }
    }
}

fn check(iterations: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), iterations);
    shuttle::check_pct(model, iterations / 2, 3);
}

#[test]
fn ten_threads_exclude_each_other_and_all_get_in() {
    check(400, || {
        let shared = Shared::new();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        shared.enter();
                        shared.change(|value| value + 1);
                        shared.unlock();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        shared.lock.lock();
        assert_eq!(shared.value(), 3 * THREADS);
        shared.unlock();
    });
}

#[test]
fn producers_and_consumers_finish() {
    check(400, || {
        let shared = Shared::new();
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        shared.enter();
                        if thread % 2 == 0 {
                            shared.wait_while(&shared.not_full, |value| value == 2);
                            shared.change(|value| value + 1);
                            shared.not_empty.notify_one();
                        } else {
                            shared.wait_while(&shared.not_empty, |value| value == 0);
                            shared.change(|value| value - 1);
                            shared.not_full.notify_one();
                        }
                        shared.unlock();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(shared.not_empty.is_abandoned() && shared.not_full.is_abandoned());
    });
}

#[test]
fn all_threads_pass_a_barrier() {
    check(400, || {
        let shared = Shared::new();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.enter();
                    shared.change(|value| value + 1);
                    if shared.value() == THREADS {
                        shared.not_empty.notify_all();
                    }
                    shared.wait_while(&shared.not_empty, |value| value < THREADS);
                    shared.unlock();
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn ten_threads_commit_everything_once() {
    check(400, || {
        let shared = Committed::new();
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let shared = shared.clone();
                thread::spawn(move || {
                    (0..3).for_each(|number| shared.commit(3 * thread + number));
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        shared.assert_complete(3 * THREADS);
    });
}
