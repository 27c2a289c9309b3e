//! Which process of a line of forks this is.
//!
//! A forked child has one thread; waiters of the others, and whoever was inside
//! a lock's list at that moment, exist only as bytes of dead stacks. A lock
//! remembers by which process its list was written, and a process that finds
//! another one's list throws it away.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{hints, spinning};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Number of forks between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// To be called in a forked child before it uses a lock or starts a thread, as
/// `pthread_atfork` does. Without it a child must not use locks for which
/// threads of its parent were waiting.
pub fn forked() {
    // 30 bits: the guard's word holds this number + 1, and a bit of its own.
    let next = (generation() + 1) & (u32::MAX >> 2);
    FORKS.store(next, Ordering::Relaxed);
    spinning::forget_spinners();
    hints::forked();
}
