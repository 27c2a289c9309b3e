//! Forked children forget the threads that they do not have.
//!
//! Our handler must be the first that runs in the child: others unlock mutexes there.
//! Handlers run in the order in which they were registered, so we watch the
//! registering, and register ours before anybody's.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::{real, shared};

unsafe extern "C" fn forked() {
    handoff::raw::forked();
    shared::forked();
}

/// Registers our handler, once.
pub(crate) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler lives as long as the process: a preloaded library is
        // never unloaded.
        unsafe { real::register_atfork(None, None, Some(forked), std::ptr::null_mut()) };
    }
}

/// What `pthread_atfork` of every library calls.
///
/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    prepare: Option<unsafe extern "C" fn()>,
    parent: Option<unsafe extern "C" fn()>,
    child: Option<unsafe extern "C" fn()>,
    library: *mut c_void,
) -> c_int {
    watch();
    // SAFETY: the caller's promise.
    unsafe { real::register_atfork(prepare, parent, child, library) }
}
