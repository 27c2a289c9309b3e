//! Threads that are cancelled while they wait for a condition variable.
//!
//! ```text
//!   pthread_cancel(t)                      t, in pthread_cond_wait
//!     sets t's flag `is_requested`           stores the word on which it will sleep
//!     wakes t while t's `sleeps_on`          reads its flag `is_requested`
//!       names a word                         sleeps
//!     the C library's pthread_cancel
//! ```
//!
//! A sleep of this library is no cancellation point of the C library, so the canceller wakes
//! the sleeper. Each side stores before it reads: either the sleeper sees that it is
//! cancelled, or the canceller sees that it sleeps. A wake-up between the sleeper's read and
//! its sleep is lost; therefore the canceller repeats it until the sleeper has cleared
//! `sleeps_on`.
//!
//! Another thread's memory is found by its distance from its `pthread_t`: the thread-local
//! variables of libraries that a program starts with are laid out alike in all threads. That
//! memory is not accessed after the call of the C library's `pthread_cancel`, because the
//! thread may be gone by then.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use libc::{c_int, pthread_t};

use crate::real;

const PTHREAD_CANCEL_ENABLE: c_int = 0;
const PTHREAD_CANCEL_DISABLE: c_int = 1;

struct Cancellation {
    is_requested: AtomicBool,
    /// The word on which the thread sleeps for a condition variable, or null.
    sleeps_on: AtomicPtr<AtomicU32>,
}

thread_local! {
    static MINE: Cancellation = const {
        Cancellation {
            is_requested: AtomicBool::new(false),
            sleeps_on: AtomicPtr::new(std::ptr::null_mut()),
        }
    };
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Whether this thread has been cancelled, by [`pthread_cancel`].
pub(crate) fn is_requested() -> bool {
    MINE.with(|mine| mine.is_requested.load(Ordering::Relaxed))
}

/// Ends the thread if it is cancelled and allows that. No frame of the caller may own a value
/// that has to be dropped.
pub(crate) fn act() {
    // SAFETY: it returns, or unwinds frames that own nothing.
    unsafe { pthread_testcancel() };
}

/// Whether cancellation is enabled in this thread.
fn is_allowed() -> bool {
    let mut state = PTHREAD_CANCEL_DISABLE;
    // SAFETY: sets the state of this thread, and puts back what it was.
    unsafe {
        real::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state);
        real::pthread_setcancelstate(state, std::ptr::null_mut());
    }
    state == PTHREAD_CANCEL_ENABLE
}

/// A wait for a condition variable; clears `sleeps_on` when it ends.
pub(crate) struct Sleep;

impl Sleep {
    pub(crate) fn begin() -> Sleep {
        Sleep
    }

    /// Stores that the thread is about to sleep on `word`. True if it must not sleep, because it
    /// is cancelled and allows that.
    pub(crate) fn is_over(&self, word: *const AtomicU32) -> bool {
        MINE.with(|mine| {
            mine.sleeps_on.store(word.cast_mut(), Ordering::SeqCst);
            if !mine.is_requested.load(Ordering::SeqCst) {
                return false;
            }
            // The canceller may stop waking this thread in either case.
            mine.sleeps_on
                .store(std::ptr::null_mut(), Ordering::Release);
            is_allowed()
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        MINE.with(|mine| {
            mine.sleeps_on
                .store(std::ptr::null_mut(), Ordering::Release);
        });
    }
}

/// Address of [`MINE`] of another thread.
fn of(thread: pthread_t) -> *const Cancellation {
    let mine = MINE.with(|mine| std::ptr::from_ref(mine).addr());
    // SAFETY: returns a number.
    let distance = mine.wrapping_sub(unsafe { libc::pthread_self() } as usize);
    std::ptr::with_exposed_provenance((thread as usize).wrapping_add(distance))
}

/// # Safety
/// The caller meets the requirements of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the thread exists, so its memory does.
    let other = unsafe { &*of(thread) };
    other.is_requested.store(true, Ordering::SeqCst);
    loop {
        let word = other.sleeps_on.load(Ordering::SeqCst);
        // SAFETY: returns a number.
        if word.is_null() || thread == unsafe { libc::pthread_self() } {
            break;
        }
        wake(word);
        // SAFETY: yields the core.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: the caller's promise.
    unsafe { real::cancel(thread) }
}

fn wake(word: *const AtomicU32) {
    // SAFETY: the kernel uses the address as a name only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}
