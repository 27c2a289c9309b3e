//! The C library's functions that this library replaces.
//!
//! Each is looked up when it is first needed, and all of them when the library starts, so
//! that none is looked up in a signal handler or a forked child later.
//!
//! glibc has two sets of functions for condition variables; a plain `dlsym` may find the
//! older one. So the version `GLIBC_2.3.2` is asked for first, and the plain name if that
//! version does not exist, as on architectures that glibc began to support later.

use std::ffi::CStr;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::message;

/// The next definition of a symbol after the one in this library.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Address of the function; null if there is none.
    pub(crate) fn look_up(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let name = self.name.as_ptr();
        // SAFETY: both are strings that end with a zero.
        let mut found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, c"GLIBC_2.3.2".as_ptr()) };
        if found.is_null() {
            // SAFETY: as above.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }

    /// Address of the function; aborts the process if there is none.
    pub(crate) fn address(&self) -> *mut c_void {
        let found = self.look_up();
        if found.is_null() {
            message::stop(&[b"the C library has no ", self.name.to_bytes()]);
        }
        found
    }
}

/// Declares the functions, and [`look_up_all`].
macro_rules! next {
    ($($name:ident($($argument:ident: $kind:ty),*) as $symbol:literal;)*) => {
        $(
            /// # Safety
            /// As for the C library's function.
            pub(crate) unsafe fn $name($($argument: $kind),*) -> libc::c_int {
                type Function = unsafe extern "C-unwind" fn($($kind),*) -> libc::c_int;
                let address = next::$name.address();
                // SAFETY: the type that the C library's header declares.
                let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )*

        #[expect(non_upper_case_globals, reason = "named like the functions")]
        mod next {
            use super::Next;
            $(pub(super) static $name: Next = Next::new($symbol);)*
        }

        /// Looks up all functions now. A function that the C library does not have, as an old
        /// one has no `clocklock`, cannot be called by a program that runs with it.
        pub(crate) fn look_up_all() {
            $(next::$name.look_up();)*
        }
    };
}

type Mutex = *mut libc::pthread_mutex_t;
type Condition = *mut libc::pthread_cond_t;
type Moment = *const libc::timespec;
type Handler = Option<unsafe extern "C" fn()>;

next! {
    mutex_init(mutex: Mutex, attributes: *const libc::pthread_mutexattr_t) as c"pthread_mutex_init";
    mutex_destroy(mutex: Mutex) as c"pthread_mutex_destroy";
    mutex_lock(mutex: Mutex) as c"pthread_mutex_lock";
    mutex_trylock(mutex: Mutex) as c"pthread_mutex_trylock";
    mutex_timedlock(mutex: Mutex, moment: Moment) as c"pthread_mutex_timedlock";
    mutex_clocklock(mutex: Mutex, clock: libc::clockid_t, moment: Moment) as c"pthread_mutex_clocklock";
    mutex_unlock(mutex: Mutex) as c"pthread_mutex_unlock";
    cond_init(condition: Condition, attributes: *const libc::pthread_condattr_t) as c"pthread_cond_init";
    cond_destroy(condition: Condition) as c"pthread_cond_destroy";
    cond_wait(condition: Condition, mutex: Mutex) as c"pthread_cond_wait";
    cond_timedwait(condition: Condition, mutex: Mutex, moment: Moment) as c"pthread_cond_timedwait";
    cond_clockwait(condition: Condition, mutex: Mutex, clock: libc::clockid_t, moment: Moment) as c"pthread_cond_clockwait";
    cond_signal(condition: Condition) as c"pthread_cond_signal";
    cond_broadcast(condition: Condition) as c"pthread_cond_broadcast";
    cancel(thread: libc::pthread_t) as c"pthread_cancel";
    register_atfork(prepare: Handler, parent: Handler, child: Handler, library: *mut c_void) as c"__register_atfork";
}

unsafe extern "C" {
    pub(crate) fn pthread_mutexattr_gettype(
        attributes: *const libc::pthread_mutexattr_t,
        kind: *mut libc::c_int,
    ) -> libc::c_int;
    pub(crate) fn pthread_setcancelstate(
        state: libc::c_int,
        before: *mut libc::c_int,
    ) -> libc::c_int;
}
