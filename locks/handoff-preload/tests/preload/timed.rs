//! Waits with a deadline.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, timespec};

use crate::under::{Condition, Inside, Mutex, both, from_now, has_passed, poll};

/// A moment with too many nanoseconds.
fn invalid() -> timespec {
    let mut moment = from_now(CLOCK_REALTIME, 1000);
    moment.tv_nsec = 1_000_000_000;
    moment
}

#[test]
fn timed_locks_end_at_their_deadline() {
    both("timed::timed_locks_end_at_their_deadline", || {
        let mutex = Mutex::new();
        let past = from_now(CLOCK_REALTIME, -1000);
        assert_eq!(
            mutex.timedlock(&raw const past),
            0,
            "a free mutex is taken after the deadline, too"
        );
        for milliseconds in [-1000, 0, 20] {
            let moment = from_now(CLOCK_REALTIME, milliseconds);
            assert_eq!(mutex.timedlock(&raw const moment), libc::ETIMEDOUT);
            assert!(has_passed(CLOCK_REALTIME, moment));
            for clock in [CLOCK_REALTIME, CLOCK_MONOTONIC] {
                let moment = from_now(clock, milliseconds);
                assert_eq!(mutex.clocklock(clock, &raw const moment), libc::ETIMEDOUT);
                assert!(has_passed(clock, moment));
            }
        }
        assert_eq!(mutex.timedlock(&invalid()), libc::EINVAL);
        let moment = from_now(CLOCK_REALTIME, 1000);
        let no_clock = mutex.clocklock(libc::CLOCK_PROCESS_CPUTIME_ID, &raw const moment);
        assert_eq!(no_clock, libc::EINVAL);
        assert_eq!(mutex.unlock(), 0);
        assert_eq!(mutex.timedlock(&invalid()), 0, "it need not wait");
        assert_eq!(mutex.unlock(), 0);
    });
}

#[test]
fn a_timed_lock_gets_the_mutex_before_its_deadline() {
    both(
        "timed::a_timed_lock_gets_the_mutex_before_its_deadline",
        || {
            let mutex = Mutex::new();
            let tries = AtomicBool::new(false);
            thread::scope(|scope| {
                assert_eq!(mutex.lock(), 0);
                scope.spawn(|| {
                    tries.store(true, Ordering::Release);
                    let moment = from_now(CLOCK_MONOTONIC, 120_000);
                    assert_eq!(mutex.clocklock(CLOCK_MONOTONIC, &raw const moment), 0);
                    assert_eq!(mutex.unlock(), 0);
                });
                poll(|| tries.load(Ordering::Acquire));
                assert_eq!(mutex.unlock(), 0);
            });
        },
    );
}

#[test]
fn waits_end_at_their_deadline_on_each_clock() {
    both("timed::waits_end_at_their_deadline_on_each_clock", || {
        let mutex = Mutex::new();
        for clock in [CLOCK_REALTIME, CLOCK_MONOTONIC] {
            let condition = Condition::with_attributes(clock, libc::PTHREAD_PROCESS_PRIVATE);
            for milliseconds in [-1000, 0, 20] {
                let moment = from_now(clock, milliseconds);
                assert_eq!(mutex.lock(), 0);
                while condition.timedwait(&mutex, &moment) != libc::ETIMEDOUT {}
                assert!(has_passed(clock, moment));
                assert_eq!(mutex.trylock(), libc::EBUSY, "the mutex is held again");
                for other in [CLOCK_REALTIME, CLOCK_MONOTONIC] {
                    let moment = from_now(other, milliseconds);
                    while condition.clockwait(&mutex, other, &moment) != libc::ETIMEDOUT {}
                    assert!(has_passed(other, moment));
                }
                assert_eq!(mutex.unlock(), 0);
            }
            assert_eq!(condition.destroy(), 0);
        }
    });
}

#[test]
fn a_static_condition_uses_the_real_time_clock() {
    both("timed::a_static_condition_uses_the_real_time_clock", || {
        static CONDITION: Condition = Condition::new();
        let mutex = Mutex::new();
        let moment = from_now(CLOCK_REALTIME, 20);
        assert_eq!(mutex.lock(), 0);
        while CONDITION.timedwait(&mutex, &moment) != libc::ETIMEDOUT {}
        assert!(has_passed(CLOCK_REALTIME, moment));
        assert_eq!(mutex.unlock(), 0);
    });
}

#[test]
fn bad_moments_and_clocks_are_refused_before_the_wait() {
    both(
        "timed::bad_moments_and_clocks_are_refused_before_the_wait",
        || {
            let (mutex, condition) = (Mutex::new(), Condition::new());
            assert_eq!(mutex.lock(), 0);
            assert_eq!(condition.timedwait(&mutex, &invalid()), libc::EINVAL);
            let moment = from_now(CLOCK_REALTIME, 1000);
            let no_clock = condition.clockwait(&mutex, libc::CLOCK_PROCESS_CPUTIME_ID, &moment);
            assert_eq!(no_clock, libc::EINVAL);
            assert_eq!(mutex.trylock(), libc::EBUSY, "it is still held");
            assert_eq!(mutex.unlock(), 0);
        },
    );
}

#[test]
fn notifications_and_time_outs_together_lose_nothing() {
    both(
        "timed::notifications_and_time_outs_together_lose_nothing",
        || {
            let (mutex, condition) = (Mutex::new(), Condition::new());
            let tokens = Inside::new(0_u32);
            let taken = AtomicUsize::new(0);
            thread::scope(|scope| {
                for thread in 0..12 {
                    let (mutex, condition, tokens, taken) = (&mutex, &condition, &tokens, &taken);
                    scope.spawn(move || {
                        let mut mine = 0;
                        while mine < 100 {
                            let moment = from_now(CLOCK_REALTIME, thread % 3);
                            mutex.with(|| {
                                if tokens.get() == 0 {
                                    condition.timedwait(mutex, &moment);
                                }
                                if tokens.get() > 0 {
                                    tokens.set(tokens.get() - 1);
                                    mine += 1;
                                    taken.fetch_add(1, Ordering::Relaxed);
                                }
                            });
                        }
                    });
                }
                for _ in 0..1200 {
                    mutex.with(|| tokens.set(tokens.get() + 1));
                    assert_eq!(condition.signal(), 0);
                }
            });
            assert_eq!(taken.into_inner(), 1200);
            assert_eq!(condition.destroy(), 0);
        },
    );
}
