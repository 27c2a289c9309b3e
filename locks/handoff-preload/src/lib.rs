//! A shared library that puts [`handoff`]'s locks under unmodified programs:
//! `LD_PRELOAD=libhandoff_preload.so program`.
//!
//! ```text
//!   program, libstdc++, ...
//!      │ pthread_mutex_lock(m)            pthread_cond_wait(c, m)
//!      ▼                                      ▼
//!   kind of m is 0?  ──no──► libc       c shared between processes? ──yes──► libc
//!      │ yes                                  │ no
//!      ▼                                      ▼
//!   handoff's Lock, in m's own bytes    handoff's Condition, in c's own bytes
//! ```
//!
//! # Which objects it replaces
//!
//! * A mutex is replaced ("ours") if its kind is 0: `PTHREAD_MUTEX_INITIALIZER`, no
//!   attributes, or attributes that ask for nothing but "normal". Recursive, error-checking,
//!   adaptive, robust, priority-inheriting and process-shared mutexes stay the C library's.
//! * A condition variable is ours unless it is process-shared, which is decided when it is
//!   initialised; all zeros, as a static one has, are ours. It may be used with a mutex of
//!   either family: a waiter with a mutex of the C library is woken instead of moved.
//! * A process-shared condition variable stays the C library's, also with a mutex of ours; see
//!   the module `shared`.
//!
//! So an object belongs to one family for all its life. C11's `mtx_*` and `cnd_*`, which this
//! library does not replace, call the C library's own functions for all operations, so that
//! the families do not mix there either.
//!
//! # Restrictions
//!
//! The library must not allocate, panic, change `errno`, need a destructor of a thread, or
//! depend on its own constructor: other libraries' constructors lock mutexes before that
//! has run.
//!
//! # Unknown C libraries
//!
//! At the first call the library finds out where the C library keeps the kind of a mutex and
//! the attributes of a condition variable (module `family`). If these are not places that
//! handoff's layouts leave free, it stands aside: every call goes to the C library, for the
//! life of the process.
//!
//! # Environment
//!
//! * `HANDOFF_STAT=1`: the library prints a line of counts on standard error when the process
//!   ends.
//! * `HANDOFF_PAGE=path`: the library counts itself in this page of `handoff::hints`, and
//!   writes hints into it if it has slots.

#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    target_endian = "little"
))]

mod cancel;
mod condition;
mod family;
mod fork;
mod message;
mod mutex;
mod real;
mod shared;
mod start;

pub use cancel::pthread_cancel;
pub use condition::{
    pthread_cond_broadcast, pthread_cond_clockwait, pthread_cond_destroy, pthread_cond_init,
    pthread_cond_signal, pthread_cond_timedwait, pthread_cond_wait,
};
pub use fork::__register_atfork;
pub use mutex::{
    pthread_mutex_clocklock, pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock,
    pthread_mutex_timedlock, pthread_mutex_trylock, pthread_mutex_unlock,
};
