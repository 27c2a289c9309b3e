//! Hints: which threads hold locks, wait for one or were preempted, in memory that another
//! process can read.
//!
//! ```text
//!   byte 0    magic, version, slots, generation, greetings 64 B
//!   byte 64   slot 1: thread, depth, waiting, preempted    64 B
//!   byte 128  slot 2 ...
//! ```
//!
//! A thread gets a slot when it first uses a lock and gives it back when it ends. It takes
//! the first free one of [`PLACES`] slots, beginning with `1 + thread % slots`, so that the
//! kernel finds it by the thread's number; if all are taken, the thread has no hints. A killed
//! process leaves its threads' slots taken; a thread that needs one takes it over. Only the
//! thread itself writes `depth` and `waiting`: two plain stores for a lock and its unlock, no
//! clock, no system call. A process that watches the scheduler writes `preempted`; while it is
//! set for the holder of a lock, waiters park at once instead of spinning.
//!
//! Without a page, which is the normal case, all this is one load of a constant
//! null and a branch that is never taken.
//!
//! Nothing is synchronised: a reader may see a thread's state an instant late. Hints are for
//! schedulers and watchers, and never decide which thread may enter a lock.

#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod page;
#[cfg(target_os = "linux")]
mod slots;

#[cfg(target_os = "linux")]
pub use file::open_file;
#[cfg(target_os = "linux")]
pub use page::{
    MAGIC, NotInstalled, PLACES, Page, Refused, SLOT_BYTES, ThreadHints, VERSION, bytes_of,
};
#[cfg(target_os = "linux")]
pub(crate) use slots::{entered, forked, holder_is_preempted, left, waits, waits_no_more};

#[cfg(not(target_os = "linux"))]
mod nowhere {
    //! No shared page on this system.

    use std::sync::atomic::AtomicU32;

    pub(crate) fn entered(_holder: &AtomicU32) {}
    pub(crate) fn left(_holder: &AtomicU32) {}
    pub(crate) fn waits(_lock: *const ()) {}
    pub(crate) fn waits_no_more() {}
    pub(crate) fn forked() {}
    pub(crate) fn holder_is_preempted(_holder: &AtomicU32) -> bool {
        false
    }
}
#[cfg(not(target_os = "linux"))]
pub(crate) use nowhere::*;
