//! Condition variables that are notified.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::under::{Condition, Inside, Mutex, both, eight_wait_for_one, poll};

static MUTEX: Mutex = Mutex::new();
static CONDITION: Condition = Condition::new();

#[test]
fn a_signal_wakes_one_and_a_broadcast_all() {
    both("conditions::a_signal_wakes_one_and_a_broadcast_all", || {
        let (waiting, tokens) = (Inside::new(0), Inside::new(0));
        assert_eq!(CONDITION.signal(), 0, "no thread waits");
        assert_eq!(CONDITION.broadcast(), 0);
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    MUTEX.with(|| {
                        waiting.set(waiting.get() + 1);
                        while tokens.get() == 0 {
                            assert_eq!(CONDITION.wait(&MUTEX), 0);
                        }
                        tokens.set(tokens.get() - 1);
                    });
                });
            }
            poll(|| MUTEX.with(|| waiting.get() == 64));
            MUTEX.with(|| tokens.set(1));
            assert_eq!(CONDITION.signal(), 0);
            poll(|| MUTEX.with(|| tokens.get() == 0));
            MUTEX.with(|| {
                tokens.set(63);
                assert_eq!(CONDITION.broadcast(), 0);
            });
        });
        assert_eq!(CONDITION.destroy(), 0);
    });
}

#[test]
fn a_bounded_queue_loses_and_repeats_nothing() {
    both(
        "conditions::a_bounded_queue_loses_and_repeats_nothing",
        || {
            const ITEMS: u32 = 4_000;
            let mutex = Mutex::new();
            let (not_full, not_empty) = (Condition::new(), Condition::new());
            let (length, sum) = (Inside::new(0_u32), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        for _ in 0..ITEMS / 16 {
                            mutex.with(|| {
                                while length.get() == 4 {
                                    assert_eq!(not_full.wait(&mutex), 0);
                                }
                                length.set(length.get() + 1);
                                assert_eq!(not_empty.signal(), 0);
                            });
                        }
                    });
                    scope.spawn(|| {
                        for _ in 0..ITEMS / 16 {
                            mutex.with(|| {
                                while length.get() == 0 {
                                    assert_eq!(not_empty.wait(&mutex), 0);
                                }
                                length.set(length.get() - 1);
                                sum.fetch_add(1, Ordering::Relaxed);
                            });
                            assert_eq!(not_full.signal(), 0);
                        }
                    });
                }
            });
            assert_eq!((length.get(), sum.into_inner()), (0, ITEMS as usize));
        },
    );
}

/// POSIX allows it: "destroyed immediately after all threads are awakened".
#[test]
fn a_condition_may_be_destroyed_right_after_the_broadcast() {
    both(
        "conditions::a_condition_may_be_destroyed_right_after_the_broadcast",
        || {
            for _ in 0..100 {
                let mutex = Mutex::new();
                let condition = Box::new(Condition::new());
                let (waiting, done) = (Inside::new(0), Inside::new(false));
                let address = (&raw const *condition).expose_provenance();
                thread::scope(|scope| {
                    for _ in 0..8 {
                        scope.spawn(|| {
                            mutex.with(|| {
                                // SAFETY: alive until all have been notified.
                                let condition = unsafe {
                                    &*std::ptr::with_exposed_provenance::<Condition>(address)
                                };
                                waiting.set(waiting.get() + 1);
                                while !done.get() {
                                    condition.wait(&mutex);
                                }
                            });
                        });
                    }
                    poll(|| mutex.with(|| waiting.get() == 8));
                    mutex.with(|| {
                        done.set(true);
                        assert_eq!(condition.broadcast(), 0);
                        assert_eq!(condition.destroy(), 0);
                        drop(condition);
                    });
                });
            }
        },
    );
}

#[test]
fn a_destroyed_condition_can_be_initialised_again() {
    both(
        "conditions::a_destroyed_condition_can_be_initialised_again",
        || {
            let (mutex, condition) = (Mutex::new(), Condition::new());
            for round in 0..3 {
                let done = Inside::new(-1);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        mutex.with(|| done.set(round));
                        condition.signal();
                    });
                    mutex.with(|| {
                        while done.get() != round {
                            assert_eq!(condition.wait(&mutex), 0);
                        }
                    });
                });
                assert_eq!(condition.destroy(), 0);
                assert_eq!(condition.init(std::ptr::null()), 0);
            }
        },
    );
}

#[test]
fn one_condition_serves_different_mutexes_in_turn() {
    both(
        "conditions::one_condition_serves_different_mutexes_in_turn",
        || {
            let condition = Condition::new();
            for kind in [
                libc::PTHREAD_MUTEX_NORMAL,
                libc::PTHREAD_MUTEX_RECURSIVE,
                libc::PTHREAD_MUTEX_NORMAL,
            ] {
                let mutex = Mutex::of_kind(kind, |_| ());
                eight_wait_for_one(&mutex, &condition);
            }
        },
    );
}
