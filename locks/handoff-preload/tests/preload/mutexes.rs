//! Mutexes that are locked and unlocked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::under::{Inside, Mutex, both, poll};

static STATIC: Mutex = Mutex::new();

#[test]
fn a_static_mutex_keeps_a_count_of_many_threads_exact() {
    both(
        "mutexes::a_static_mutex_keeps_a_count_of_many_threads_exact",
        || {
            const ROUNDS: u64 = 500;
            let count = Inside::new(0_u64);
            thread::scope(|scope| {
                for _ in 0..128 {
                    scope.spawn(|| {
                        for _ in 0..ROUNDS {
                            STATIC.with(|| count.set(count.get() + 1));
                        }
                    });
                }
            });
            assert_eq!(count.get(), 128 * ROUNDS);
        },
    );
}

#[test]
fn trylock_returns_busy_while_the_mutex_is_held() {
    both(
        "mutexes::trylock_returns_busy_while_the_mutex_is_held",
        || {
            let mutex = Mutex::new();
            assert_eq!(mutex.trylock(), 0);
            assert_eq!(mutex.trylock(), libc::EBUSY, "by the same thread");
            thread::scope(|scope| {
                scope.spawn(|| assert_eq!(mutex.trylock(), libc::EBUSY));
            });
            assert_eq!(mutex.unlock(), 0);
            assert_eq!(mutex.trylock(), 0);
            assert_eq!(mutex.unlock(), 0);
        },
    );
}

#[test]
fn a_waiter_gets_the_mutex_after_the_unlock() {
    both("mutexes::a_waiter_gets_the_mutex_after_the_unlock", || {
        let mutex = Mutex::new();
        let has_entered = AtomicBool::new(false);
        thread::scope(|scope| {
            assert_eq!(mutex.lock(), 0);
            scope.spawn(|| mutex.with(|| has_entered.store(true, Ordering::Release)));
            assert!(!has_entered.load(Ordering::Acquire));
            assert_eq!(mutex.unlock(), 0);
            poll(|| has_entered.load(Ordering::Acquire));
        });
    });
}

#[test]
fn a_destroyed_mutex_can_be_initialised_again() {
    both(
        "mutexes::a_destroyed_mutex_can_be_initialised_again",
        || {
            let mutex = Mutex::new();
            for _ in 0..3 {
                assert_eq!(mutex.lock(), 0);
                assert_eq!(mutex.destroy(), libc::EBUSY);
                assert_eq!(mutex.unlock(), 0);
                assert_eq!(mutex.destroy(), 0);
                assert_eq!(mutex.trylock(), libc::EINVAL, "it is destroyed");
                assert_eq!(mutex.init(std::ptr::null()), 0);
            }
            let normal = Mutex::of_kind(libc::PTHREAD_MUTEX_NORMAL, |_| ());
            normal.with(|| assert_eq!(normal.trylock(), libc::EBUSY));
        },
    );
}

/// The last user frees the memory, as in the example of POSIX.
#[test]
fn a_mutex_may_be_freed_by_its_next_holder() {
    both("mutexes::a_mutex_may_be_freed_by_its_next_holder", || {
        for _ in 0..300 {
            let shared = Box::into_raw(Box::new((Mutex::new(), Inside::new(4))));
            let address = shared.addr();
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    thread::Builder::new().spawn(move || {
                        let shared =
                            std::ptr::with_exposed_provenance_mut::<(Mutex, Inside<i32>)>(address);
                        // SAFETY: only the last user frees it.
                        let (mutex, users) = unsafe { &*shared };
                        let left = mutex.with(|| {
                            users.set(users.get() - 1);
                            users.get()
                        });
                        if left == 0 {
                            assert_eq!(mutex.destroy(), 0);
                            // SAFETY: no other thread uses it any more.
                            drop(unsafe { Box::from_raw(shared) });
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.unwrap().join().unwrap();
            }
            let _ = shared.expose_provenance();
        }
    });
}

#[test]
fn unlocking_a_free_mutex_has_no_effect() {
    both("mutexes::unlocking_a_free_mutex_has_no_effect", || {
        let mutex = Mutex::new();
        assert_eq!(mutex.unlock(), 0);
        mutex.with(|| ());
    });
}

#[test]
fn waiting_does_not_change_errno() {
    both("mutexes::waiting_does_not_change_errno", || {
        let mutex = Mutex::new();
        let has_waited = AtomicBool::new(false);
        thread::scope(|scope| {
            assert_eq!(mutex.lock(), 0);
            scope.spawn(|| {
                // SAFETY: the thread's own `errno`.
                unsafe { *libc::__errno_location() = 77 };
                mutex.with(|| ());
                // SAFETY: as above.
                assert_eq!(unsafe { *libc::__errno_location() }, 77);
                has_waited.store(true, Ordering::Release);
            });
            // Time for the thread to go to sleep; the test passes without it, too.
            (0..20).for_each(|_| crate::under::pause());
            assert_eq!(mutex.unlock(), 0);
            poll(|| has_waited.load(Ordering::Acquire));
        });
    });
}
