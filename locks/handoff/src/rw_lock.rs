//! A readers-writer lock: the [`Lock`] as a gate, and a word that counts readers.
//!
//! ```text
//!   reader   no writer: count + 1, without the gate
//!            a writer:  locks the gate (waits there), count + 1, unlocks the gate
//!   writer   locks the gate and keeps it; sets WRITER, so that new readers go to the gate;
//!            waits until the readers inside have left
//! ```
//!
//! All waiting but the writer's for the last reader happens at the gate, so its rules
//! hold here too: one heir, the newest first, the oldest in its turn. Neither readers
//! nor writers can starve. A thread must not lock for reading twice at a time: a writer that
//! comes between would wait for the first lock, and the second lock for the writer.

use std::time::{Duration, Instant};

use lock_api::GuardNoSend;

use crate::futex::{self, Deadline};
use crate::lock::Lock;
use crate::mutex::until;
use crate::slices;
use crate::spinning::Spin;
use crate::sync::{AtomicU32, Ordering};

/// Set while a writer is inside, or waits for the readers to leave.
const WRITER: u32 = 1 << 31;
/// Far above any number of threads, far below [`WRITER`].
const READERS_MAX: u32 = 1 << 30;

/// The lock of a [`RwLock`], for `lock_api`.
pub struct RawRwLock {
    gate: Lock,
    readers: AtomicU32,
}

/// A lock that admits many readers or one writer. Neither can starve; a thread must not lock
/// it for reading twice at a time.
///
/// ```
/// let limits = handoff::RwLock::new(vec![1, 2]);
/// assert_eq!(limits.read().len(), 2);
/// limits.write().push(3);
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// Shared access to the value of a [`RwLock`].
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to the value of a [`RwLock`].
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

impl RawRwLock {
    /// Waits until the readers inside have left; false once the deadline has passed.
    fn drain(&self, deadline: Option<&Deadline>) -> bool {
        let mut spin: Option<Spin> = None;
        loop {
            let readers = self.readers.load(Ordering::Acquire);
            if readers == WRITER {
                return true;
            }
            if spin.is_none() {
                spin = Spin::begin(true);
            }
            if spin.as_mut().is_some_and(Spin::again) {
                continue;
            }
            if !futex::wait(&self.readers, readers, deadline) {
                return self.readers.load(Ordering::Acquire) == WRITER;
            }
        }
    }

    fn read_through_the_gate(&self, deadline: Option<&Deadline>) -> bool {
        match deadline {
            None => self.gate.lock(),
            Some(deadline) if !self.gate.lock_until(deadline) => return false,
            Some(_) => {}
        }
        let before = self.readers.fetch_add(1, Ordering::Acquire);
        assert!(before < READERS_MAX, "more readers than threads can exist");
        slices::entered();
        // SAFETY: this thread has just locked the gate.
        unsafe { self.gate.unlock() };
        true
    }

    fn write_inside_the_gate(&self, deadline: Option<&Deadline>) -> bool {
        self.readers.fetch_or(WRITER, Ordering::Acquire);
        let drained = self.drain(deadline);
        if !drained {
            self.readers.fetch_and(!WRITER, Ordering::Relaxed);
            // SAFETY: the caller has locked the gate.
            unsafe { self.gate.unlock() };
        }
        drained
    }

    #[inline]
    fn try_read(&self) -> bool {
        let mut readers = self.readers.load(Ordering::Relaxed);
        while readers & WRITER == 0 {
            assert!(readers < READERS_MAX, "more readers than threads can exist");
            match self.readers.compare_exchange_weak(
                readers,
                readers + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    slices::entered();
                    return true;
                }
                Err(now) => readers = now,
            }
        }
        false
    }
}

// SAFETY: a writer holds the gate and waits until no reader is counted; a reader
// is counted only while no writer holds the gate.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: RawRwLock = RawRwLock {
        gate: Lock::new(),
        readers: AtomicU32::new(0),
    };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        if !self.try_read() {
            self.read_through_the_gate(None);
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_read()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        slices::left();
        let before = self.readers.fetch_sub(1, Ordering::Release);
        if before == WRITER | 1 {
            futex::wake_one(&raw const self.readers);
        }
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.gate.lock();
        self.write_inside_the_gate(None);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        if !self.gate.try_lock() {
            return false;
        }
        let entered = self
            .readers
            .compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if !entered {
            // SAFETY: this thread has just locked the gate.
            unsafe { self.gate.unlock() };
        }
        entered
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.readers.fetch_and(!WRITER, Ordering::Release);
        // SAFETY: the writer holds the gate.
        unsafe { self.gate.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.readers.load(Ordering::Relaxed) != 0
    }

    fn is_locked_exclusive(&self) -> bool {
        self.readers.load(Ordering::Relaxed) & WRITER != 0
    }
}

// SAFETY: the gate is handed over as a whole.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    unsafe fn unlock_shared_fair(&self) {
        // SAFETY: the caller's promise. Readers have nothing to hand over.
        unsafe { lock_api::RawRwLock::unlock_shared(self) };
    }

    /// Hands the gate to the oldest waiter even if it sleeps, which is slow.
    unsafe fn unlock_exclusive_fair(&self) {
        self.readers.fetch_and(!WRITER, Ordering::Release);
        // SAFETY: the writer holds the gate.
        unsafe { self.gate.unlock_fair() };
    }
}

// SAFETY: the writer becomes the one counted reader before the gate opens.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        slices::entered();
        self.readers.store(1, Ordering::Release);
        // SAFETY: the writer holds the gate.
        unsafe { self.gate.unlock() };
    }
}

// SAFETY: as for the functions without a time limit.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, patience: Duration) -> bool {
        self.try_read() || self.read_through_the_gate(Some(&Deadline::after(patience)))
    }

    fn try_lock_shared_until(&self, moment: Instant) -> bool {
        self.try_lock_shared_for(until(moment))
    }

    fn try_lock_exclusive_for(&self, patience: Duration) -> bool {
        let deadline = Deadline::after(patience);
        self.gate.lock_until(&deadline) && self.write_inside_the_gate(Some(&deadline))
    }

    fn try_lock_exclusive_until(&self, moment: Instant) -> bool {
        self.try_lock_exclusive_for(until(moment))
    }
}
