//! The generation of this process: how many forks lie between the first process and it.
//!
//! A forked child has one thread. The parent's other threads, among them waiters in the lists
//! of locks and a thread that was just changing such a list, exist in the child only as
//! bytes of their stacks. A lock remembers the generation of the process that has written
//! its list, and a process that finds another generation empties the list.

use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Number of forks between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts a fork, in the child.
pub(crate) fn begin_generation() {
    // 30 bits: the guard's word holds this number + 1, and a bit of its own.
    let next = (generation() + 1) & (u32::MAX >> 2);
    FORKS.store(next, Ordering::Relaxed);
}
