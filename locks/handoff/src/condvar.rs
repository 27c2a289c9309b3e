//! A condition variable for [`Mutex`](crate::Mutex), with parking_lot's methods.

use std::time::{Duration, Instant};

use crate::condition::{Condition, Wake};
use crate::futex::Deadline;
use crate::mutex::{MutexGuard, until};

/// A condition variable: threads wait until something about a mutex's value has changed.
///
/// Notifying does not wake a thread while the mutex is held: the thread is moved to the
/// mutex's own queue, still asleep. Wake-ups without a notification are possible, so wait in
/// a loop or with [`Condvar::wait_while`].
///
/// ```
/// let ready = handoff::Mutex::new(false);
/// let changed = handoff::Condvar::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     changed.wait_while(&mut ready.lock(), |ready| !*ready);
/// });
/// ```
#[derive(Default)]
pub struct Condvar {
    condition: Condition,
}

/// Result of a timed wait: whether it ended because its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was up.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar {
            condition: Condition::new(),
        }
    }

    /// Notifies the thread that has waited longest; false if no thread waits.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.condition.notify_one()
    }

    /// Notifies all threads that wait now, and returns their number.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.condition.notify_all()
    }

    /// Unlocks the mutex, waits for a notification, locks the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_with(guard, None);
    }

    /// Waits as [`Condvar::wait`] does, but for `patience` at most.
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        patience: Duration,
    ) -> WaitTimeoutResult {
        self.wait_with(guard, Some(&Deadline::after(patience)))
    }

    /// Waits as [`Condvar::wait`] does, but until `moment` at most.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        moment: Instant,
    ) -> WaitTimeoutResult {
        self.wait_for(guard, until(moment))
    }

    /// Waits until `condition` is false.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// Waits until `condition` is false, for `patience` at most. The result is a time-out
    /// only if `condition` is still true then.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        patience: Duration,
    ) -> WaitTimeoutResult {
        let deadline = Deadline::after(patience);
        let mut last = WaitTimeoutResult(false);
        while condition(&mut **guard) {
            if last.timed_out() {
                return last;
            }
            last = self.wait_with(guard, Some(&deadline));
        }
        WaitTimeoutResult(false)
    }

    fn wait_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<&Deadline>,
    ) -> WaitTimeoutResult {
        // SAFETY: the guard proves that this thread holds the lock; it holds the lock again
        // when `wait` returns.
        let wake = unsafe {
            let lock = &lock_api::MutexGuard::mutex(guard).raw().lock;
            self.condition.wait(lock, deadline)
        };
        WaitTimeoutResult(wake == Wake::TimedOut)
    }
}

impl std::fmt::Debug for Condvar {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad("Condvar { .. }")
    }
}
