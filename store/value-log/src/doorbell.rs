//! Waking one thread without missing a ring and without a system call when it
//! is awake.
//!
//! ```text
//!   ringer:   make work visible ─► fence ─► asleep?  yes: clear it, unpark
//!   sleeper:  asleep = true     ─► fence ─► work?    no: park
//! ```
//!
//! One of the two sees the other: either the sleeper finds the work, or the
//! ringer finds the sleeper. `tests/loom_ledger.rs` tries every interleaving.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sync::{AtomicBool, Ordering, Thread, current, fence, park};

/// Wakes the thread that attached itself.
#[derive(Debug, Default)]
pub struct Doorbell {
    /// The sleeper is parked or about to park.
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Doorbell {
    /// Makes the calling thread the sleeper, in place of another one that no longer waits.
    pub fn attach(&self) {
        *self.sleeper() = Some(current());
    }

    fn sleeper(&self) -> MutexGuard<'_, Option<Thread>> {
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the sleeper. Call it after making work visible.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.claim() {
            let sleeper = self.sleeper().clone();
            sleeper.expect("it attached before it slept").unpark();
        }
    }

    /// Whether this ringer is the one to wake the sleeper. Not a plain swap:
    /// a ringer that comes too late must not write at all.
    fn claim(&self) -> bool {
        self.asleep
            .compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Blocks the sleeper until `ready` says so; `ready` runs at least once.
    pub fn wait_until(&self, mut ready: impl FnMut() -> bool) {
        while !ready() {
            self.asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if ready() {
                self.asleep.store(false, Ordering::Relaxed);
                return;
            }
            park();
        }
    }
}
