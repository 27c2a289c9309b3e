//! Children that are forked while locks are held, waited for, or free.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::under::{Condition, Inside, Mutex, both, from_now, is_preloaded, poll};

/// Waits for a child; its exit code.
pub fn ended(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: a child of this process, and room for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "child ended with {status:#x}");
    libc::WEXITSTATUS(status)
}

/// Runs `work` in a child, which is killed if it hangs, and asserts that it returns true.
fn in_a_child(work: impl FnOnce() -> bool) {
    // SAFETY: the child uses only what belongs to this thread, and exits.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: a limit, and the end of the child.
        unsafe {
            libc::alarm(240);
            libc::_exit(i32::from(!work()));
        }
    }
    assert_eq!(ended(child), 0, "the work in the child returned false");
}

#[test]
fn free_locks_work_in_the_child() {
    both("forks::free_locks_work_in_the_child", || {
        let (mutex, condition) = (Mutex::new(), Condition::new());
        in_a_child(|| {
            let moment = from_now(libc::CLOCK_REALTIME, 10);
            let mut works = mutex.lock() == 0;
            works &= condition.timedwait(&mutex, &moment) == libc::ETIMEDOUT;
            works &= mutex.unlock() == 0 && condition.broadcast() == 0;
            works && mutex.destroy() == 0 && condition.destroy() == 0
        });
        mutex.with(|| ());
    });
}

#[test]
fn a_lock_that_was_held_and_waited_for_works_in_the_child() {
    both(
        "forks::a_lock_that_was_held_and_waited_for_works_in_the_child",
        || {
            for _ in 0..20 {
                let mutex = Mutex::new();
                let waiting = AtomicBool::new(false);
                thread::scope(|scope| {
                    assert_eq!(mutex.lock(), 0);
                    for _ in 0..8 {
                        scope.spawn(|| {
                            waiting.store(true, Ordering::Release);
                            mutex.with(|| ());
                        });
                    }
                    poll(|| waiting.load(Ordering::Acquire));
                    in_a_child(|| {
                        let held = mutex.trylock() == libc::EBUSY;
                        let left = mutex.unlock() == 0;
                        let again = mutex.lock() == 0 && mutex.unlock() == 0;
                        held && left && again && mutex.trylock() == 0
                    });
                    assert_eq!(mutex.unlock(), 0);
                });
            }
        },
    );
}

/// Other threads lock and unlock all the time, so that forks meet every state of the list. The
/// forking thread holds the mutex, as it does after a `prepare` handler.
#[test]
fn a_mutex_under_contention_works_in_the_child() {
    both("forks::a_mutex_under_contention_works_in_the_child", || {
        let (mutex, condition) = (Mutex::new(), Condition::new());
        let (stop, tokens) = (AtomicBool::new(false), Inside::new(0_u64));
        thread::scope(|scope| {
            for thread in 0..6 {
                let (mutex, condition, stop, tokens) = (&mutex, &condition, &stop, &tokens);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        mutex.with(|| {
                            if thread % 2 == 0 && !stop.load(Ordering::Relaxed) {
                                condition.wait(mutex);
                            }
                            tokens.set(tokens.get() + 1);
                        });
                        condition.signal();
                    }
                });
            }
            for _ in 0..100 {
                assert_eq!(mutex.lock(), 0);
                in_a_child(|| {
                    let works = mutex.unlock() == 0 && mutex.lock() == 0;
                    // The C library's own may be held by a thread that the child does not have.
                    let notified =
                        !is_preloaded() || condition.signal() == 0 && condition.broadcast() == 0;
                    works && notified && mutex.unlock() == 0
                });
                assert_eq!(mutex.unlock(), 0);
            }
            mutex.with(|| stop.store(true, Ordering::Relaxed));
            assert_eq!(condition.broadcast(), 0);
        });
    });
}

static HANDLED: Mutex = Mutex::new();

extern "C" fn prepare() {
    assert_eq!(HANDLED.lock(), 0);
}

extern "C" fn unlock() {
    assert_eq!(HANDLED.unlock(), 0);
}

/// The child's handler unlocks before anything else of the child runs.
#[test]
fn handlers_around_a_fork_lock_and_unlock() {
    both("forks::handlers_around_a_fork_lock_and_unlock", || {
        // SAFETY: handlers that live as long as the process.
        let failed = unsafe { libc::pthread_atfork(Some(prepare), Some(unlock), Some(unlock)) };
        assert_eq!(failed, 0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        HANDLED.with(|| ());
                    }
                });
            }
            for _ in 0..100 {
                in_a_child(|| HANDLED.lock() == 0 && HANDLED.unlock() == 0);
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn threads_of_a_child_contend() {
    both("forks::threads_of_a_child_contend", || {
        let (mutex, condition) = (Mutex::new(), Condition::new());
        assert_eq!(mutex.lock(), 0);
        in_a_child(|| {
            let count = Inside::new(0);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..50 {
                            mutex.with(|| count.set(count.get() + 1));
                            condition.signal();
                        }
                    });
                }
                mutex.unlock();
                mutex.with(|| {
                    while count.get() < 400 {
                        condition.wait(&mutex);
                    }
                });
            });
            count.get() == 400
        });
        assert_eq!(mutex.unlock(), 0);
    });
}
