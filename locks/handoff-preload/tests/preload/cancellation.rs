//! Threads that are cancelled while they wait for a condition variable.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, pthread_cond_t, pthread_mutex_t, pthread_t};

use crate::under::{Condition, Mutex, both, poll};

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_cancel(thread: pthread_t) -> c_int;
}

const CANCEL_ENABLE: c_int = 0;
const CANCEL_DISABLE: c_int = 1;
/// Result of `pthread_join` for a cancelled thread.
const CANCELED: usize = usize::MAX;

static MUTEX: Mutex = Mutex::new();
static CONDITION: Condition = Condition::new();
static WAITING: AtomicU32 = AtomicU32::new(0);
static RELEASED: AtomicU32 = AtomicU32::new(0);

fn start(body: extern "C" fn(*mut c_void) -> *mut c_void) -> pthread_t {
    let mut thread = 0;
    // SAFETY: default attributes, and a function for a thread.
    let failed = unsafe {
        libc::pthread_create(
            &raw mut thread,
            std::ptr::null(),
            body,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(failed, 0);
    thread
}

fn join(thread: pthread_t) -> usize {
    let mut result = std::ptr::null_mut();
    // SAFETY: a thread that no other thread joins.
    assert_eq!(unsafe { libc::pthread_join(thread, &raw mut result) }, 0);
    result.addr()
}

fn cancel(thread: pthread_t) {
    // SAFETY: a thread that has not been joined.
    assert_eq!(unsafe { pthread_cancel(thread) }, 0);
}

unsafe extern "C-unwind" {
    /// `pthread_cond_wait`, declared so that the thread may be unwound inside it.
    #[link_name = "pthread_cond_wait"]
    fn wait_or_end(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
}

/// Waits for ever. No frame of it owns anything: it is unwound.
extern "C-unwind" fn waits(_: *mut c_void) -> *mut c_void {
    // SAFETY: initialised objects.
    unsafe {
        libc::pthread_mutex_lock(MUTEX.get());
        WAITING.fetch_add(1, Ordering::Release);
        loop {
            wait_or_end(CONDITION.get(), MUTEX.get());
            RELEASED.fetch_add(1, Ordering::Release);
        }
    }
}

/// The same function for `pthread_create`, which is declared without unwinding.
fn waiting_body() -> extern "C" fn(*mut c_void) -> *mut c_void {
    // SAFETY: C does not distinguish them.
    unsafe {
        std::mem::transmute::<
            extern "C-unwind" fn(*mut c_void) -> *mut c_void,
            extern "C" fn(*mut c_void) -> *mut c_void,
        >(waits)
    }
}

#[test]
fn a_cancelled_waiter_ends_inside_the_mutex() {
    both(
        "cancellation::a_cancelled_waiter_ends_inside_the_mutex",
        || {
            for round in 0..50 {
                let thread = start(waiting_body());
                poll(|| WAITING.load(Ordering::Acquire) == round + 1);
                cancel(thread);
                assert_eq!(join(thread), CANCELED);
                // It ended without a handler that unlocks: by POSIX it still holds the mutex.
                assert_eq!(MUTEX.trylock(), libc::EBUSY);
                assert_eq!(MUTEX.unlock(), 0);
                assert_eq!(CONDITION.signal(), 0, "no waiter is left in it");
            }
            assert_eq!(CONDITION.destroy(), 0);
        },
    );
}

#[test]
fn other_waiters_wait_on_when_one_is_cancelled() {
    both(
        "cancellation::other_waiters_wait_on_when_one_is_cancelled",
        || {
            let threads: Vec<pthread_t> = (0..8).map(|_| start(waiting_body())).collect();
            poll(|| WAITING.load(Ordering::Acquire) == 8);
            for thread in threads {
                cancel(thread);
                assert_eq!(join(thread), CANCELED);
                assert_eq!(MUTEX.unlock(), 0);
            }
        },
    );
}

extern "C" fn waits_undisturbed(_: *mut c_void) -> *mut c_void {
    // SAFETY: sets this thread's state.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, std::ptr::null_mut()) };
    MUTEX.with(|| {
        WAITING.fetch_add(1, Ordering::Release);
        while RELEASED.load(Ordering::Acquire) == 0 {
            assert_eq!(CONDITION.wait(&MUTEX), 0);
        }
    });
    // SAFETY: as above; nothing that follows is a cancellation point.
    unsafe { pthread_setcancelstate(CANCEL_ENABLE, std::ptr::null_mut()) };
    std::ptr::null_mut()
}

#[test]
fn a_thread_that_disables_cancellation_is_not_cancelled() {
    both(
        "cancellation::a_thread_that_disables_cancellation_is_not_cancelled",
        || {
            let thread = start(waits_undisturbed);
            poll(|| WAITING.load(Ordering::Acquire) == 1);
            cancel(thread);
            MUTEX.with(|| RELEASED.store(1, Ordering::Release));
            assert_eq!(CONDITION.broadcast(), 0);
            assert_eq!(join(thread), 0, "its function has returned");
        },
    );
}

#[test]
fn a_thread_may_cancel_itself_and_ends_at_the_wait() {
    both(
        "cancellation::a_thread_may_cancel_itself_and_ends_at_the_wait",
        || {
            extern "C-unwind" fn body(argument: *mut c_void) -> *mut c_void {
                // SAFETY: the thread exists; its cancellation is deferred.
                unsafe { pthread_cancel(libc::pthread_self()) };
                waits(argument)
            }
            // SAFETY: as in `waiting_body`.
            let body = unsafe {
                std::mem::transmute::<
                    extern "C-unwind" fn(*mut c_void) -> *mut c_void,
                    extern "C" fn(*mut c_void) -> *mut c_void,
                >(body)
            };
            assert_eq!(join(start(body)), CANCELED);
            assert_eq!(MUTEX.unlock(), 0);
        },
    );
}
