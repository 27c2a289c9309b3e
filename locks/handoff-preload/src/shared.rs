//! Process-shared condition variables with a mutex of ours.
//!
//! Such a pair works within one process only, but it is allowed. The C library does not know
//! the mutex, so its wait gets a mutex of its own:
//!
//! ```text
//!   wait:   lock BETWEEN, unlock the mutex, wait with BETWEEN, unlock it, lock the mutex
//!   notify: lock BETWEEN, notify, unlock it
//! ```
//!
//! A notifier changes the awaited state inside the mutex, after the waiter has unlocked it.
//! Then it finds `BETWEEN` locked until the waiter can be notified. No thread waits for a
//! mutex of ours while it holds `BETWEEN`.
//!
//! These waits are no cancellation points.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, pthread_mutex_t};

use crate::family::lock_in;
use crate::real;

struct Between(UnsafeCell<pthread_mutex_t>);

// SAFETY: only the C library's functions touch it.
unsafe impl Sync for Between {}

static BETWEEN: Between = Between(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
/// Whether such a pair has been used. A thread that notifies after a waiter has unlocked the
/// mutex sees it, because it has locked the same mutex.
static EXISTS: AtomicBool = AtomicBool::new(false);

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Waits by calling `wait` with the mutex that the C library has to use, which is `mutex`
/// itself unless it is ours.
///
/// # Safety
/// The caller holds `mutex`. No value has to be dropped if `wait` unwinds.
pub(crate) unsafe fn wait(
    mutex: *mut pthread_mutex_t,
    wait: impl FnOnce(*mut pthread_mutex_t) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(lock) = (unsafe { lock_in(mutex) }) else {
        return wait(mutex);
    };
    EXISTS.store(true, Ordering::SeqCst);
    let between = BETWEEN.0.get();
    let mut state = 0;
    // SAFETY: the caller's promise; only the C library's functions use `BETWEEN`.
    unsafe {
        if !lock.is_locked() {
            return libc::EPERM;
        }
        real::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state);
        real::mutex_lock(between);
        lock.unlock();
        let outcome = wait(between);
        real::mutex_unlock(between);
        lock.lock();
        real::pthread_setcancelstate(state, std::ptr::null_mut());
        outcome
    }
}

/// Notifies a process-shared condition variable by calling `notify`.
pub(crate) fn notify(notify: impl FnOnce() -> c_int) -> c_int {
    if !EXISTS.load(Ordering::SeqCst) {
        return notify();
    }
    let between = BETWEEN.0.get();
    // SAFETY: only the C library's functions use `BETWEEN`.
    unsafe {
        real::mutex_lock(between);
        let outcome = notify();
        real::mutex_unlock(between);
        outcome
    }
}

/// Resets `BETWEEN`, in a forked child: a thread of the parent may have held it.
pub(crate) fn forked() {
    // SAFETY: this is the child's only thread.
    unsafe { BETWEEN.0.get().write(libc::PTHREAD_MUTEX_INITIALIZER) };
}
