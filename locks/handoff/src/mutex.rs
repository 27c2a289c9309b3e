//! A mutual exclusion lock for `lock_api`, so that it can replace parking_lot's.

use std::time::{Duration, Instant};

use lock_api::GuardNoSend;

use crate::futex::Deadline;
use crate::lock::Lock;

/// The lock of a [`Mutex`], for `lock_api`.
pub struct RawMutex {
    pub(crate) lock: Lock,
}

/// A mutex that protects a value. The crate's page says which waiter enters next.
///
/// ```
/// static TOTAL: handoff::Mutex<u64> = handoff::Mutex::new(0);
/// *TOTAL.lock() += 1;
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a [`Mutex`] until it is dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Access to a part of the value of a [`Mutex`].
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

// SAFETY: `Lock` lets one thread in at a time.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: RawMutex = RawMutex { lock: Lock::new() };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.lock.lock();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.lock.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}

// SAFETY: after the hand-over one thread holds the lock.
unsafe impl lock_api::RawMutexFair for RawMutex {
    /// Hands the lock to the oldest waiter even if it sleeps, which is slow.
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock_fair() };
    }
}

// SAFETY: as for `lock`.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, patience: Duration) -> bool {
        self.lock.lock_until(&Deadline::after(patience))
    }

    fn try_lock_until(&self, moment: Instant) -> bool {
        self.try_lock_for(until(moment))
    }
}

/// Time left until a moment; zero if it has passed.
#[expect(
    clippy::disallowed_methods,
    reason = "this crate stands alone: it has no other clock"
)]
pub(crate) fn until(moment: Instant) -> Duration {
    moment.saturating_duration_since(Instant::now())
}
