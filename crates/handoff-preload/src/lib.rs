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
//! # Who is ours
//!
//! * A mutex is ours if its kind is 0: `PTHREAD_MUTEX_INITIALIZER`, no attributes, or
//!   attributes that say nothing but "normal". Recursive, error-checking, adaptive,
//!   robust, priority-inheriting and process-shared ones stay the C library's.
//! * A condition variable is ours unless it is process-shared, and that is settled when
//!   it is made: zeros, as a static one has, mean ours. It may be used with a mutex of
//!   either family: a waiter with a foreign mutex is woken instead of moved.
//! * A process-shared one stays the C library's, also with a mutex of ours; see
//!   [`shared`].
//!
//! So nothing ever changes hands. What is not interposed cannot meet what is: C11's
//! `mtx_*` and `cnd_*` call the C library's own functions for lock and unlock alike.
//!
//! # What it must not do
//!
//! Allocate, panic, change `errno`, need a destructor of a thread, or need to have been
//! initialised: other libraries' constructors lock mutexes before ours has run.
//!
//! # When it stands aside
//!
//! It asks the C library at the first call where a mutex keeps its kind and a
//! condition variable its attributes ([`family`]). If the answer is not what our
//! layouts leave free, every call goes to the C library, for the life of the process.
//!
//! # Environment
//!
//! * `HANDOFF_STAT=1`: a line of counts on standard error when the process ends.
//! * `HANDOFF_PAGE=path`: a page of `handoff::hints` to greet, and to write hints into
//!   if it has slots.

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
