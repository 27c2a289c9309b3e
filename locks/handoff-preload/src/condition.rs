//! `pthread_cond_*`.
//!
//! Waiting is a cancellation point. A cancelled thread leaves the list of waiters and locks
//! the mutex again before the C library unwinds it. By then its stack must hold no value of
//! this library that has to be dropped, which is why the functions that may be unwound only
//! call others and compare numbers.

use handoff::raw::{Condition, Deadline, Ticket, Wake};
use libc::{c_int, clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec};

use crate::cancel::{self, Sleep};
use crate::family::{clock_of, condition_in, is_in_use, lock_in, make_condition};
use crate::{real, shared};

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    condition: *mut pthread_cond_t,
    attributes: *const pthread_condattr_t,
) -> c_int {
    let (mut clock, mut shared) = (libc::CLOCK_REALTIME, libc::PTHREAD_PROCESS_PRIVATE);
    // SAFETY: the caller's promise.
    unsafe {
        if !attributes.is_null() {
            libc::pthread_condattr_getclock(attributes, &raw mut clock);
            libc::pthread_condattr_getpshared(attributes, &raw mut shared);
        }
        if is_in_use() && shared == libc::PTHREAD_PROCESS_PRIVATE {
            make_condition(condition, clock);
            return 0;
        }
        real::cond_init(condition, attributes)
    }
}

/// Waits for threads that are just leaving. If a thread still waits for a notification, returns
/// `EBUSY`; POSIX leaves this case open.
///
/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match condition_in(condition) {
            Some(condition) if condition.is_abandoned() => 0,
            Some(_) => libc::EBUSY,
            None => real::cond_destroy(condition),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match condition_in(condition) {
            Some(condition) => {
                condition.notify_one();
                0
            }
            None => shared::notify(|| real::cond_signal(condition)),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match condition_in(condition) {
            Some(condition) => {
                condition.notify_all();
                0
            }
            None => shared::notify(|| real::cond_broadcast(condition)),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match condition_in(condition) {
            Some(condition) => wait(condition, mutex, None),
            None => shared::wait(mutex, |mutex| real::cond_wait(condition, mutex)),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    moment: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match condition_in(condition) {
            Some(condition) => wait_until(condition, mutex, clock_of(condition), moment),
            None => shared::wait(mutex, |mutex| {
                real::cond_timedwait(condition, mutex, moment)
            }),
        }
    }
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    moment: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match condition_in(condition) {
            Some(condition) => wait_until(condition, mutex, clock, moment),
            None => shared::wait(mutex, |mutex| {
                real::cond_clockwait(condition, mutex, clock, moment)
            }),
        }
    }
}

/// # Safety
/// As for the functions above.
unsafe fn wait_until(
    condition: &Condition,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    moment: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    match Deadline::at(clock, unsafe { *moment }) {
        // SAFETY: the caller's promise.
        Some(deadline) => unsafe { wait(condition, mutex, Some(&deadline)) },
        None => libc::EINVAL,
    }
}

/// Waits, and lets the C library end the thread if it is cancelled during the wait.
///
/// # Safety
/// As for the functions above.
unsafe fn wait(
    condition: &Condition,
    mutex: *mut pthread_mutex_t,
    deadline: Option<&Deadline>,
) -> c_int {
    if cancel::is_requested() {
        // The mutex is held, as POSIX requires when the thread's handlers run.
        cancel::act();
    }
    // SAFETY: the caller's promise.
    let outcome = unsafe { sleep(condition, mutex, deadline) };
    if outcome != INTERRUPTED {
        return outcome;
    }
    cancel::act();
    // Cancellation has not taken effect yet: this is a spurious wake-up.
    0
}

/// An outcome that is no error number.
const INTERRUPTED: c_int = -1;

/// Sleeps with the mutex unlocked. Returns 0, [`INTERRUPTED`] or an error number. It does not
/// unwind: a panic ends the process.
///
/// # Safety
/// As for the functions above.
unsafe extern "C" fn sleep(
    condition: &Condition,
    mutex: *mut pthread_mutex_t,
    deadline: Option<&Deadline>,
) -> c_int {
    let sleep = Sleep::begin();
    // SAFETY: the caller's promise.
    let Some(lock) = (unsafe { lock_in(mutex) }) else {
        // SAFETY: as above.
        return unsafe { sleep_with_foreign_mutex(condition, mutex, deadline, &sleep) };
    };
    if !lock.is_locked() {
        return libc::EPERM;
    }
    // SAFETY: the caller holds the mutex.
    let wake = unsafe { condition.wait_unless(lock, deadline, |word| sleep.is_over(word)) };
    outcome_of(wake)
}

fn outcome_of(wake: Wake) -> c_int {
    match wake {
        Wake::Notified => 0,
        Wake::TimedOut => libc::ETIMEDOUT,
        Wake::Interrupted => INTERRUPTED,
    }
}

/// The same with a mutex of the C library.
///
/// # Safety
/// As for the functions above.
unsafe fn sleep_with_foreign_mutex(
    condition: &Condition,
    mutex: *mut pthread_mutex_t,
    deadline: Option<&Deadline>,
    sleep: &Sleep,
) -> c_int {
    let ticket = Ticket::without_lock(condition);
    ticket.enlist();
    // SAFETY: the caller's promise.
    let failed = unsafe { real::mutex_unlock(mutex) };
    if failed != 0 {
        // The caller does not own the mutex. Another waiter gets a notification that this one
        // has received since it enlisted.
        if !ticket.withdraw() {
            ticket.sleep(None);
            condition.notify_one();
        }
        return failed;
    }
    let wake = ticket.sleep_unless(deadline, |word| sleep.is_over(word));
    // SAFETY: the caller's promise.
    let failed = unsafe { real::mutex_lock(mutex) };
    // The owner of a robust mutex may have died: the caller has to know (`EOWNERDEAD`).
    if failed == 0 {
        outcome_of(wake)
    } else {
        failed
    }
}
