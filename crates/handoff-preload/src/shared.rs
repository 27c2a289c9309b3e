//! Process-shared condition variables with a mutex of ours.
//!
//! Such a pair works within one process only, but it is allowed. The C library knows
//! nothing of our mutex, so its wait gets a mutex of its own kind:
//!
//! ```text
//!   wait:   lock BETWEEN, unlock the mutex, wait with BETWEEN, unlock it, lock the mutex
//!   notify: lock BETWEEN, notify, unlock it
//! ```
//!
//! Whoever changes what is waited for does so inside the mutex, after the waiter has
//! left it, and then finds `BETWEEN` held until the waiter can be notified. Nobody
//! waits for a mutex of ours while holding `BETWEEN`.
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
/// Whether there has been such a pair. Whoever notifies after a waiter has left the
/// mutex sees it, by having entered the same mutex.
static EXISTS: AtomicBool = AtomicBool::new(false);

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Waits by `wait`, which is given the mutex to wait with.
///
/// # Safety
/// The caller is inside `mutex`, which is ours.
pub(crate) unsafe fn wait(
    mutex: *mut pthread_mutex_t,
    wait: impl FnOnce(*mut pthread_mutex_t) -> c_int,
) -> c_int {
    EXISTS.store(true, Ordering::SeqCst);
    let between = BETWEEN.0.get();
    let mut state = 0;
    // SAFETY: the caller's promise; `BETWEEN` is used by the C library alone.
    unsafe {
        let Some(lock) = lock_in(mutex) else {
            return libc::EINVAL;
        };
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

/// Notifies a process-shared condition variable by `notify`.
pub(crate) fn notify(notify: impl FnOnce() -> c_int) -> c_int {
    if !EXISTS.load(Ordering::SeqCst) {
        return notify();
    }
    let between = BETWEEN.0.get();
    // SAFETY: `BETWEEN` is used by the C library alone.
    unsafe {
        real::mutex_lock(between);
        let outcome = notify();
        real::mutex_unlock(between);
        outcome
    }
}

/// In a forked child: whoever was inside does not exist here.
pub(crate) fn forked() {
    // SAFETY: the child has one thread, and it is here.
    unsafe { BETWEEN.0.get().write(libc::PTHREAD_MUTEX_INITIALIZER) };
}
