//! A futex for systems without one. Sleepers share a few condition variables, which are found
//! by the address of the word; a wake-up wakes all of one, and each checks its word.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BUCKETS: usize = 64;

struct Bucket {
    mutex: Mutex<()>,
    woken: Condvar,
}

static TABLE: [Bucket; BUCKETS] = [const {
    Bucket {
        mutex: Mutex::new(()),
        woken: Condvar::new(),
    }
}; BUCKETS];

/// The moment at which a timed wait ends.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// None for a moment beyond the clock's range, which never comes.
    at: Option<Instant>,
}

impl Deadline {
    /// A deadline `patience` from now.
    pub fn after(patience: Duration) -> Deadline {
        Deadline {
            at: now().checked_add(patience),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this crate stands alone: it has no other clock"
)]
fn now() -> Instant {
    Instant::now()
}

fn enter(word: *const AtomicU32) -> (MutexGuard<'static, ()>, &'static Condvar) {
    // The low bits of the addresses differ little.
    let bucket = &TABLE[(word.addr() / 64) % BUCKETS];
    let guard = bucket.mutex.lock().unwrap_or_else(PoisonError::into_inner);
    (guard, &bucket.woken)
}

/// Sleeps while `word` is `expected`, without a limit if there is no deadline; false once the
/// deadline has passed.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> bool {
    let (guard, woken) = enter(word);
    if word.load(Ordering::Relaxed) != expected {
        return true;
    }
    match deadline.and_then(|deadline| deadline.at) {
        None => {
            drop(woken.wait(guard));
            true
        }
        Some(at) => {
            let left = at.saturating_duration_since(now());
            !left.is_zero() && {
                drop(woken.wait_timeout(guard, left));
                true
            }
        }
    }
}

/// Wakes the sleepers of the word at this address, and all others of the same bucket.
pub(crate) fn wake_one(word: *const AtomicU32) {
    let (_guard, woken) = enter(word);
    woken.notify_all();
}
