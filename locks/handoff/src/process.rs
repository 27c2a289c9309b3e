//! The generation of this process: how many forks lie between the first process and it.
//!
//! A forked child has one thread. The parent's other threads, among them waiters in the lists
//! of locks and a thread that was just changing such a list, exist in the child only as
//! bytes of their stacks. A lock remembers the generation of the process that has written
//! its list, and a process that finds another generation empties the list.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{hints, spinning};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Number of forks between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Tells the locks that this process is a forked child. It has to be called in the child before
/// the child uses a lock or starts a thread, for instance by `pthread_atfork`. Without the call
/// a child must not use locks for which threads of its parent were waiting.
pub fn forked() {
    // 30 bits: the guard's word holds this number + 1, and a bit of its own.
    let next = (generation() + 1) & (u32::MAX >> 2);
    FORKS.store(next, Ordering::Relaxed);
    spinning::forget_spinners();
    hints::forked();
}
