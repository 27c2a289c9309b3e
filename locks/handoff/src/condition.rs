//! A condition variable without a mutex. Notified waiters are moved to their lock instead of
//! being woken.
//!
//! ```text
//!   wait:    list of the condition ──► sleeps on its own word
//!   notify:  claims the oldest, then
//!              its lock is held  ──► moved to the lock's list, still asleep
//!              its lock is free  ──► woken as the lock's heir
//! ```
//!
//! A thread that was notified needs the lock before it can do anything. Waking it
//! while the notifier holds the lock would send it to sleep again at once; so it is
//! moved, and woken when its turn at the lock comes.
//!
//! # Watching
//!
//! Before it sleeps, a waiter polls its word for some microseconds if a core is free: the
//! leader of a group of writers has often finished by then. A waiter that is notified while
//! it polls enters the lock by itself; it need not be moved or woken. It has the words
//! `WATCHING` and `CLAIMED_WATCHING` instead of `ASLEEP` and `CLAIMED`, from which the
//! notifier sees that.
//!
//! # Time-outs
//!
//! A notifier and a waiter that gives up compete by one step on the waiter's word (`CLAIMED`
//! or `LEAVING`). A claimed waiter never accesses the condition again, so that a thread that
//! has notified all waiters may free it. A leaving waiter unlinks itself, and
//! [`Condition::is_abandoned`] waits for that.

use crate::futex::Deadline;
use crate::guard::{Found, Guard};
use crate::lock::{Lock, Role};
use crate::slices;
use crate::spinning::Spin;
use crate::sync::{AtomicU32, Ordering, const_fn, yield_now};
use crate::waiters::{
    ASLEEP, CLAIMED, CLAIMED_WATCHING, LEAVING, NOTIFIED, WATCHING, Waiter, Waiters,
};

/// A condition variable without a mutex. It has 48 bytes; all zeros are one without waiters.
#[repr(C)]
pub struct Condition {
    /// Protects `waiters`, and writes of `length`.
    guard: Guard,
    waiters: Waiters,
    /// Number of waiters in the list, which notifiers read without the guard.
    length: AtomicU32,
    /// Stays 0: `pthread_cond_t` keeps its attributes here from glibc 2.42 on.
    unused: u32,
    /// The condition does not use these words; `pthread_cond_t` keeps its attributes in the
    /// second one before glibc 2.42.
    pub attributes: [u32; 4],
}

/// A thread's entry in the list of a condition.
///
/// It must not move between [`Ticket::enlist`] and the end of [`Ticket::sleep`], or of a
/// successful [`Ticket::withdraw`].
pub struct Ticket<'a> {
    waiter: Waiter,
    condition: &'a Condition,
}

/// Reason for which a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A thread has notified the waiter.
    Notified,
    /// The deadline passed before a notification.
    TimedOut,
    /// The caller's `is_interrupted` returned true before a notification.
    Interrupted,
}

struct Inside<'a>(&'a Condition);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.guard.leave();
    }
}

impl Default for Condition {
    fn default() -> Condition {
        Condition::new()
    }
}

impl Condition {
    const_fn! {
        /// A condition without waiters.
        pub fn new() -> Condition {
            Condition {
                guard: Guard::new(),
                waiters: Waiters::new(),
                length: AtomicU32::new(0),
                unused: 0,
                attributes: [0; 4],
            }
        }
    }

    /// Releases the lock, waits for a notification, acquires the lock again.
    ///
    /// # Safety
    /// The caller holds `lock`.
    pub unsafe fn wait(&self, lock: &Lock, deadline: Option<&Deadline>) -> Wake {
        // SAFETY: the caller's promise.
        unsafe { self.wait_unless(lock, deadline, |_| false) }
    }

    /// Waits as [`Condition::wait`] does, but calls `is_interrupted` before each sleep, and ends
    /// the wait if that returns true. Its argument is the word on which the thread will sleep:
    /// a futex wake-up there by another thread makes the waiter call `is_interrupted` again.
    ///
    /// # Safety
    /// The caller holds `lock`.
    pub unsafe fn wait_unless(
        &self,
        lock: &Lock,
        deadline: Option<&Deadline>,
        is_interrupted: impl Fn(*const AtomicU32) -> bool,
    ) -> Wake {
        let ticket = Ticket::new(self, lock);
        slices::uses_condition(lock.address());
        ticket.enlist();
        // SAFETY: the caller's promise.
        unsafe { lock.unlock() };
        let (wake, role) = ticket.sleep_for(deadline, is_interrupted);
        lock.reenter(role);
        wake
    }

    /// Notifies the thread that has waited longest; false if no thread waits.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.length.load(Ordering::Relaxed) != 0 && self.notify_oldest()
    }

    /// Notifies all threads that wait now; returns their number.
    #[inline]
    pub fn notify_all(&self) -> usize {
        if self.length.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.notify_all_waiters()
    }

    #[cold]
    fn notify_oldest(&self) -> bool {
        let claimed = {
            let inside = self.enter();
            // SAFETY: this thread holds the guard.
            let claimed = unsafe { self.waiters.claim_oldest() };
            inside.shorten(usize::from(claimed.is_some()));
            claimed
        };
        match claimed {
            // SAFETY: claimed by this thread.
            Some(waiter) => unsafe { move_or_wake(waiter) },
            None => return false,
        }
        true
    }

    #[cold]
    fn notify_all_waiters(&self) -> usize {
        let (claimed, count) = {
            let inside = self.enter();
            // SAFETY: this thread holds the guard.
            let (claimed, count) = unsafe { self.waiters.claim_all() };
            inside.shorten(count);
            (claimed, count)
        };
        // Newest first: the oldest comes to lie at the front of the lock's list.
        for waiter in claimed {
            // SAFETY: claimed by this thread.
            unsafe { move_or_wake(waiter) };
        }
        count
    }

    /// Whether the condition has no waiters, so that it may be destroyed. Waits for waiters
    /// that are just leaving; false if a thread still waits for a notification.
    pub fn is_abandoned(&self) -> bool {
        loop {
            let inside = self.enter();
            // SAFETY: this thread holds the guard.
            let (empty, all_leave) =
                unsafe { (self.waiters.is_empty(), self.waiters.all_are_leaving()) };
            drop(inside);
            if empty || !all_leave {
                return empty;
            }
            yield_now();
        }
    }

    /// Enters the guard; in a forked child, drops the waiters of the parent process first.
    fn enter(&self) -> Inside<'_> {
        if self.guard.enter() == Found::AnotherProcess {
            // SAFETY: this thread holds the guard.
            unsafe { self.waiters.forget() };
            self.length.store(0, Ordering::Relaxed);
        }
        Inside(self)
    }
}

impl Inside<'_> {
    fn shorten(&self, by: usize) {
        let length = self.0.length.load(Ordering::Relaxed);
        self.0.length.store(length - by as u32, Ordering::Relaxed);
    }
}

/// Moves a notified waiter to its lock, or wakes it if it needs none. A waiter that is watching
/// enters the lock by itself.
///
/// # Safety
/// The caller has claimed the waiter, which has no final word yet.
unsafe fn move_or_wake(waiter: *const Waiter) {
    // SAFETY: a claimed waiter exists until it has its final word, and keeps its lock alive.
    unsafe {
        let lock = (*waiter).lock.as_ref();
        if let Some(lock) = lock {
            slices::uses_condition(lock.address());
        }
        if (*waiter).step(CLAIMED_WATCHING, NOTIFIED) {
            return;
        }
        match lock {
            Some(lock) => lock.adopt(waiter),
            None => Waiter::wake(waiter, NOTIFIED),
        }
    }
}

impl<'a> Ticket<'a> {
    /// An entry for a thread that will need `lock` afterwards.
    fn new(condition: &'a Condition, lock: *const Lock) -> Ticket<'a> {
        Ticket {
            waiter: Waiter::new(lock),
            condition,
        }
    }

    /// An entry for a thread that waits with a mutex other than a [`Lock`]: notifying it means
    /// waking it.
    pub fn without_lock(condition: &'a Condition) -> Ticket<'a> {
        Ticket::new(condition, std::ptr::null())
    }

    /// Enters the list; from here on the thread can be notified.
    pub fn enlist(&self) {
        let condition = self.condition;
        let _inside = condition.enter();
        // SAFETY: this thread holds the guard; the ticket stays until the sleep has ended.
        unsafe { condition.waiters.push_front(&raw const self.waiter) };
        let length = condition.length.load(Ordering::Relaxed);
        condition.length.store(length + 1, Ordering::Relaxed);
    }

    /// Leaves the list; false if the thread was notified before.
    pub fn withdraw(&self) -> bool {
        if !self.waiter.decide(LEAVING) {
            return false;
        }
        let inside = self.condition.enter();
        // SAFETY: this thread holds the guard; a leaving waiter is unlinked by itself only.
        unsafe { self.condition.waiters.unlink(&raw const self.waiter) };
        inside.shorten(1);
        true
    }

    /// Sleeps until the thread is notified or the deadline has passed.
    pub fn sleep(&self, deadline: Option<&Deadline>) -> Wake {
        self.sleep_unless(deadline, |_| false)
    }

    /// Sleeps as [`Ticket::sleep`] does, but calls `is_interrupted` before each sleep, as
    /// [`Condition::wait_unless`] does.
    pub fn sleep_unless(
        &self,
        deadline: Option<&Deadline>,
        is_interrupted: impl Fn(*const AtomicU32) -> bool,
    ) -> Wake {
        self.sleep_for(deadline, is_interrupted).0
    }

    fn sleep_for(
        &self,
        deadline: Option<&Deadline>,
        is_interrupted: impl Fn(*const AtomicU32) -> bool,
    ) -> (Wake, Role) {
        let mut may_leave = true;
        self.watch();
        loop {
            let word = self.waiter.word();
            if let Some(role) = Role::of_word(word) {
                return (Wake::Notified, role);
            }
            assert!(
                word == ASLEEP || word == CLAIMED,
                "a waiter cannot sleep while it is leaving"
            );
            let reason = if may_leave && is_interrupted(self.waiter.address()) {
                Wake::Interrupted
            } else if self.waiter.sleep(word, deadline.filter(|_| may_leave)) {
                continue;
            } else {
                Wake::TimedOut
            };
            if self.withdraw() {
                return (reason, Role::Newcomer);
            }
            // Notified before it could leave: it waits for its final word now.
            may_leave = false;
        }
    }

    /// Polls for a notification while a core is free: a group's leader has often finished
    /// before its followers could fall asleep.
    fn watch(&self) {
        let Some(mut spin) = Spin::for_a_notification() else {
            return;
        };
        if !self.waiter.step(ASLEEP, WATCHING) {
            return;
        }
        while self.waiter.word() == WATCHING && spin.again() {}
        let is_claimed = !self.waiter.step(WATCHING, ASLEEP);
        Spin::was_worth_it(is_claimed);
        if is_claimed {
            // The final word follows at once, unless the notifier has lost its core.
            while self.waiter.word() == CLAIMED_WATCHING && spin.again() {}
            self.waiter.step(CLAIMED_WATCHING, CLAIMED);
        }
    }
}
