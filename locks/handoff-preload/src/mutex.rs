//! `pthread_mutex_*`.

use handoff::raw::Deadline;
use libc::{c_int, clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};

use crate::family::{is_in_use, lock_in, make_lock, spoil};
use crate::real;

/// Whether attributes ask for nothing but a normal, private mutex.
///
/// # Safety
/// `attributes` is null or initialised.
unsafe fn are_plain(attributes: *const pthread_mutexattr_t) -> bool {
    if attributes.is_null() {
        return true;
    }
    let (mut kind, mut shared, mut robust, mut protocol) = (-1, -1, -1, -1);
    // SAFETY: the caller's promise, and room for the answers.
    unsafe {
        real::pthread_mutexattr_gettype(attributes, &raw mut kind);
        libc::pthread_mutexattr_getpshared(attributes, &raw mut shared);
        libc::pthread_mutexattr_getrobust(attributes, &raw mut robust);
        libc::pthread_mutexattr_getprotocol(attributes, &raw mut protocol);
    }
    kind == libc::PTHREAD_MUTEX_NORMAL
        && shared == libc::PTHREAD_PROCESS_PRIVATE
        && robust == libc::PTHREAD_MUTEX_STALLED
        && protocol == libc::PTHREAD_PRIO_NONE
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if is_in_use() && are_plain(attributes) {
            make_lock(mutex);
            return 0;
        }
        real::mutex_init(mutex, attributes)
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match lock_in(mutex) {
            Some(lock) if lock.is_locked() => libc::EBUSY,
            Some(_) => {
                spoil(mutex);
                0
            }
            None => real::mutex_destroy(mutex),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(lock) = lock_in(mutex) else {
            return real::mutex_lock(mutex);
        };
        lock.lock();
    }
    0
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match lock_in(mutex) {
            Some(lock) if lock.try_lock() => 0,
            Some(_) => libc::EBUSY,
            None => real::mutex_trylock(mutex),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    moment: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match lock_in(mutex) {
            Some(lock) => lock_until(lock, libc::CLOCK_REALTIME, moment),
            None => real::mutex_timedlock(mutex, moment),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    moment: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match lock_in(mutex) {
            Some(_) if !is_known(clock) => libc::EINVAL,
            Some(lock) => lock_until(lock, clock, moment),
            None => real::mutex_clocklock(mutex, clock, moment),
        }
    }
}

/// Whether timed waits can use this clock.
fn is_known(clock: clockid_t) -> bool {
    clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC
}

/// Locks before `moment`. An invalid moment is an error only if the lock is not free.
///
/// # Safety
/// The moment can be read.
unsafe fn lock_until(
    lock: &handoff::raw::Lock,
    clock: clockid_t,
    moment: *const timespec,
) -> c_int {
    if lock.try_lock() {
        return 0;
    }
    // SAFETY: the caller's promise.
    match Deadline::at(clock, unsafe { *moment }) {
        None => libc::EINVAL,
        Some(deadline) if lock.lock_until(&deadline) => 0,
        Some(_) => libc::ETIMEDOUT,
    }
}

/// Unlocks the mutex. If it is not locked, the call has no effect, as with the C library.
///
/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(lock) = lock_in(mutex) else {
            return real::mutex_unlock(mutex);
        };
        if lock.is_locked() {
            lock.unlock();
        }
    }
    0
}
