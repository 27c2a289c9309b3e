//! The handler that removes the parent's threads from the locks of a forked child.
//!
//! It must be the first handler that runs in the child, because others unlock mutexes there.
//! Handlers run in the order in which they were registered, so this library stands before
//! the function that registers them, and registers its own before any other.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::{real, shared};

unsafe extern "C" fn forked() {
    handoff::raw::forked();
    shared::forked();
}

/// Registers the handler, once.
pub(crate) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler lives as long as the process: a preloaded library is
        // never unloaded.
        unsafe { real::register_atfork(None, None, Some(forked), std::ptr::null_mut()) };
    }
}

/// Registers handlers: `pthread_atfork` in every library calls this function.
///
/// # Safety
/// As for the C library's function.
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
