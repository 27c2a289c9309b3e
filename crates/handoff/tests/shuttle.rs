//! Random schedules of more threads than loom can try, of the crate's own sources.
//!
//! Here a deadline passes at random, and so does the chance to spin.

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

use model::{counts, hints, process};

mod clock {
    use shuttle::rand::Rng;

    pub fn micros() -> u32 {
        0
    }

    /// The oldest is due now and then.
    pub fn has_come(_moment: u32, _now: u32) -> bool {
        shuttle::rand::thread_rng().gen_bool(0.2)
    }
}

mod sync {
    pub(crate) use shuttle::hint::spin_loop;
    pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
    pub(crate) use shuttle::thread::yield_now;

    macro_rules! const_fn {
        ($(#[$attribute:meta])* $visible:vis fn $($rest:tt)*) => {
            $(#[$attribute])* $visible fn $($rest)*
        };
    }
    pub(crate) use const_fn;

    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

mod futex {
    use shuttle::rand::Rng;
    use shuttle::sync::{Condvar, Mutex};

    use crate::sync::{AtomicU32, Ordering};

    pub struct Deadline;

    shuttle::lazy_static! {
        static ref ROOM: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> bool {
        if deadline.is_some() {
            shuttle::thread::yield_now();
            return shuttle::rand::thread_rng().gen_bool(0.7);
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
    use shuttle::rand::Rng;

    pub struct Spin(u32);

    impl Spin {
        pub fn begin(_is_heir: bool) -> Option<Spin> {
            shuttle::rand::thread_rng().gen_bool(0.5).then_some(Spin(2))
        }

        pub fn for_a_notification() -> Option<Spin> {
            Spin::begin(false)
        }

        pub fn was_worth_it(_worth: bool) {}

        pub fn extend(&mut self) {
            self.0 = 3;
        }

        pub fn again(&mut self) -> bool {
            shuttle::hint::spin_loop();
            self.0 = self.0.saturating_sub(1);
            self.0 > 0
        }
    }

    pub fn give_way() {
        shuttle::thread::yield_now();
    }

    pub fn cores() -> u32 {
        2
    }
}

use std::cell::UnsafeCell;
use std::sync::Arc;

use commit_queue::CommitQueue;
use condition::{Condition, Wake};
use futex::Deadline;
use lock::Lock;
use shuttle::rand::Rng;
use shuttle::thread;

const THREADS: u32 = 10;

/// A lock, and a number that is torn when two are inside at once.
struct Shared {
    lock: Lock,
    not_empty: Condition,
    not_full: Condition,
    value: UnsafeCell<u32>,
}

// SAFETY: the value is used inside the lock.
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
        // SAFETY: inside the lock, if it does what it should.
        let before = unsafe { *self.value.get() };
        // Somebody else who is inside would be seen.
        thread::yield_now();
        // SAFETY: as above.
        unsafe { *self.value.get() = change(before) };
    }

    fn value(&self) -> u32 {
        // SAFETY: inside the lock.
        unsafe { *self.value.get() }
    }

    fn unlock(&self) {
        // SAFETY: the models call it inside.
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

    /// Waits, now and then impatiently, until `condition` is false.
    fn wait_while(&self, changed: &Condition, condition: impl Fn(u32) -> bool) {
        while condition(self.value()) {
            let impatient = shuttle::rand::thread_rng().gen_bool(0.3);
            // SAFETY: inside.
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
fn everybody_at_the_barrier_goes_on() {
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

struct Committed {
    queue: CommitQueue<u32, u32>,
    log: UnsafeCell<Vec<u32>>,
}

// SAFETY: the log is the leader's.
unsafe impl Sync for Committed {}
// SAFETY: as above.
unsafe impl Send for Committed {}

#[test]
fn ten_threads_commit_everything_once() {
    check(400, || {
        let shared = Arc::new(Committed {
            queue: CommitQueue::new(),
            log: UnsafeCell::new(Vec::new()),
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for number in 0..3 {
                        let operation = 3 * thread + number;
                        let answer = shared.queue.commit(operation, |group| {
                            for member in group {
                                let operation = member.take_operation();
                                // SAFETY: one leader at a time.
                                let length = unsafe { (*shared.log.get()).len() };
                                thread::yield_now();
                                // SAFETY: as above.
                                let log = unsafe { &mut *shared.log.get() };
                                assert_eq!(log.len(), length, "two leaders");
                                log.push(operation);
                                member.answer(operation + 100);
                            }
                        });
                        assert_eq!(answer, Ok(operation + 100));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: everybody has gone.
        let log = unsafe { &mut *shared.log.get() };
        log.sort_unstable();
        assert!(log.iter().copied().eq(0..3 * THREADS));
    });
}
