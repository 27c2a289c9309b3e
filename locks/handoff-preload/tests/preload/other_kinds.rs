//! Objects that stay the C library's, alone and together with replaced ones.

use std::thread;

use libc::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_NORMAL,
    PTHREAD_MUTEX_RECURSIVE, PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED,
};

use crate::under::{Condition, Inside, Mutex, both, from_now, poll};

#[test]
fn a_recursive_mutex_counts() {
    both("other_kinds::a_recursive_mutex_counts", || {
        let mutex = Mutex::of_kind(PTHREAD_MUTEX_RECURSIVE, |_| ());
        assert_eq!((mutex.lock(), mutex.lock(), mutex.trylock()), (0, 0, 0));
        for _ in 0..3 {
            thread::scope(|scope| {
                scope.spawn(|| assert_eq!(mutex.trylock(), libc::EBUSY));
            });
            assert_eq!(mutex.unlock(), 0);
        }
        assert_eq!(mutex.unlock(), libc::EPERM);
        assert_eq!(mutex.destroy(), 0);
    });
}

#[test]
fn an_error_checking_mutex_checks() {
    both("other_kinds::an_error_checking_mutex_checks", || {
        let mutex = Mutex::of_kind(PTHREAD_MUTEX_ERRORCHECK, |_| ());
        let condition = Condition::new();
        assert_eq!(mutex.unlock(), libc::EPERM);
        assert_eq!(condition.wait(&mutex), libc::EPERM);
        assert_eq!((mutex.lock(), mutex.lock()), (0, libc::EDEADLK));
        assert_eq!(mutex.unlock(), 0);
        assert_eq!(mutex.destroy(), 0);
    });
}

#[test]
fn a_robust_mutex_reports_its_dead_owner() {
    both("other_kinds::a_robust_mutex_reports_its_dead_owner", || {
        // SAFETY: attributes that are being made.
        let mutex = Mutex::of_kind(PTHREAD_MUTEX_NORMAL, |attributes| unsafe {
            libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST);
        });
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(mutex.lock(), 0));
        });
        assert_eq!(mutex.lock(), libc::EOWNERDEAD);
        // SAFETY: this thread holds it.
        assert_eq!(unsafe { libc::pthread_mutex_consistent(mutex.get()) }, 0);
        assert_eq!(mutex.unlock(), 0);
    });
}

/// Many threads wait for, and notify, a condition variable with a mutex.
fn exercise(mutex: &Mutex, condition: &Condition) {
    let (waiting, tokens) = (Inside::new(0), Inside::new(0));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                mutex.with(|| {
                    waiting.set(waiting.get() + 1);
                    while tokens.get() == 0 {
                        assert_eq!(condition.wait(mutex), 0);
                    }
                    tokens.set(tokens.get() - 1);
                });
            });
        }
        poll(|| mutex.with(|| waiting.get() == 16));
        for _ in 0..8 {
            mutex.with(|| tokens.set(tokens.get() + 1));
            assert_eq!(condition.signal(), 0);
        }
        poll(|| mutex.with(|| tokens.get() == 0));
        mutex.with(|| tokens.set(8));
        assert_eq!(condition.broadcast(), 0);
    });
    mutex.with(|| {
        let moment = from_now(CLOCK_MONOTONIC, 10);
        while condition.clockwait(mutex, CLOCK_MONOTONIC, &moment) != libc::ETIMEDOUT {}
    });
}

#[test]
fn each_kind_of_mutex_goes_with_each_kind_of_condition() {
    both(
        "other_kinds::each_kind_of_mutex_goes_with_each_kind_of_condition",
        || {
            for shared in [PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED] {
                for clock in [CLOCK_REALTIME, CLOCK_MONOTONIC] {
                    for kind in [
                        PTHREAD_MUTEX_NORMAL,
                        PTHREAD_MUTEX_RECURSIVE,
                        PTHREAD_MUTEX_ERRORCHECK,
                        libc::PTHREAD_MUTEX_ADAPTIVE_NP,
                    ] {
                        let condition = Condition::with_attributes(clock, shared);
                        exercise(&Mutex::of_kind(kind, |_| ()), &condition);
                        assert_eq!(condition.destroy(), 0);
                    }
                }
            }
        },
    );
}

/// Both objects are in memory that a forked child shares.
#[test]
fn two_processes_meet_at_a_shared_pair() {
    both("other_kinds::two_processes_meet_at_a_shared_pair", || {
        struct Shared {
            mutex: Mutex,
            condition: Condition,
            turn: Inside<u32>,
        }
        // SAFETY: a new mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(memory != libc::MAP_FAILED);
        // SAFETY: attributes that are being made.
        let mutex = Mutex::of_kind(PTHREAD_MUTEX_NORMAL, |attributes| unsafe {
            libc::pthread_mutexattr_setpshared(attributes, PTHREAD_PROCESS_SHARED);
        });
        // SAFETY: room for it, which no other thread uses yet.
        let shared = unsafe {
            memory.cast::<Shared>().write(Shared {
                mutex,
                condition: Condition::with_attributes(CLOCK_REALTIME, PTHREAD_PROCESS_SHARED),
                turn: Inside::new(0),
            });
            &*memory.cast::<Shared>()
        };
        let play = |mine: u32| {
            for round in 0..200 {
                shared.mutex.with(|| {
                    while shared.turn.get() != 2 * round + mine {
                        assert_eq!(shared.condition.wait(&shared.mutex), 0);
                    }
                    shared.turn.set(shared.turn.get() + 1);
                });
                assert_eq!(shared.condition.broadcast(), 0);
            }
        };
        // SAFETY: the child calls only these functions, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            play(1);
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        play(0);
        assert_eq!(crate::forks::ended(child), 0);
    });
}
