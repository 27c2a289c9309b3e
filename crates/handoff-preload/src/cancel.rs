//! Threads that are cancelled while they wait for a condition variable.
//!
//! ```text
//!   pthread_cancel(t)                    t, in pthread_cond_wait
//!     says so in t's own memory            says on which word it sleeps
//!     wakes t as long as it says           looks whether it is cancelled
//!       that it sleeps                     sleeps
//!     the C library's pthread_cancel
//! ```
//!
//! Our sleep is no cancellation point of the C library, so the canceller wakes the
//! sleeper. Saying comes before looking on both sides: either the sleeper sees that it
//! is cancelled, or the canceller sees that it sleeps. Between looking and sleeping a
//! wake-up is lost; the canceller goes on until the sleeper has answered.
//!
//! Another thread's memory is found by its distance from its `pthread_t`: that of
//! libraries that a program starts with is laid out alike in all threads. Nothing is
//! touched after the C library knows of the cancellation, because the thread and its
//! memory may be gone by then.

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

/// Whether somebody has cancelled this thread.
pub(crate) fn is_requested() -> bool {
    MINE.with(|mine| mine.is_requested.load(Ordering::Relaxed))
}

/// Ends the thread if it is cancelled and allows it. To be called with nothing on the
/// stack that wants to be dropped.
pub(crate) fn act() {
    // SAFETY: it returns, or unwinds frames that own nothing.
    unsafe { pthread_testcancel() };
}

/// Whether the thread lets itself be cancelled now.
fn is_allowed() -> bool {
    let mut state = PTHREAD_CANCEL_DISABLE;
    // SAFETY: sets the state of this thread, and puts back what it was.
    unsafe {
        real::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state);
        real::pthread_setcancelstate(state, std::ptr::null_mut());
    }
    state == PTHREAD_CANCEL_ENABLE
}

/// A wait for a condition variable.
pub(crate) struct Sleep;

impl Sleep {
    pub(crate) fn begin() -> Sleep {
        Sleep
    }

    /// Says that the thread is about to sleep on `word`; whether it must not.
    pub(crate) fn is_over(&self, word: *const AtomicU32) -> bool {
        MINE.with(|mine| {
            mine.sleeps_on.store(word.cast_mut(), Ordering::SeqCst);
            if !mine.is_requested.load(Ordering::SeqCst) {
                return false;
            }
            // The canceller has its answer, whatever it is.
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

/// Where another thread keeps its [`MINE`].
fn of(thread: pthread_t) -> *const Cancellation {
    let mine = MINE.with(|mine| std::ptr::from_ref(mine).addr());
    // SAFETY: asks for a number.
    let distance = mine.wrapping_sub(unsafe { libc::pthread_self() } as usize);
    std::ptr::with_exposed_provenance((thread as usize).wrapping_add(distance))
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the thread exists, so its memory does.
    let other = unsafe { &*of(thread) };
    other.is_requested.store(true, Ordering::SeqCst);
    loop {
        let word = other.sleeps_on.load(Ordering::SeqCst);
        // SAFETY: asks for a number.
        if word.is_null() || thread == unsafe { libc::pthread_self() } {
            break;
        }
        wake(word);
        // SAFETY: gives the core away.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: the caller's promise.
    unsafe { real::cancel(thread) }
}

fn wake(word: *const AtomicU32) {
    // SAFETY: the kernel takes the address for a name.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}
