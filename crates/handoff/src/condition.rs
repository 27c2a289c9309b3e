//! The condition variable without its mutex: waiting moves, nobody wakes in vain.
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
//! Whoever waits looks at its word for some microseconds before it sleeps, if a core is
//! free: the leader of a group of writers is often done by then. One that is notified
//! while it looks goes to the lock by itself; neither is it moved nor must it be woken.
//! `WATCHING` and `CLAIMED_WATCHING` stand for `ASLEEP` and `CLAIMED` meanwhile, so that
//! the notifier knows.
//!
//! # Time-outs
//!
//! Notifier and sleeper decide by one step on the waiter's word who was first
//! (`CLAIMED` or `LEAVING`). A claimed waiter never looks at the condition again, so
//! that whoever has notified everybody may free it. A leaving one unlinks itself,
//! and [`Condition::is_abandoned`] waits for that.

use crate::futex::Deadline;
use crate::guard::{Found, Guard};
use crate::lock::{Lock, Role};
use crate::slices;
use crate::spinning::Spin;
use crate::sync::{AtomicU32, Ordering, const_fn, yield_now};
use crate::waiters::{
    ASLEEP, CLAIMED, CLAIMED_WATCHING, LEAVING, NOTIFIED, WATCHING, Waiter, Waiters,
};

/// A condition variable without a mutex, 48 bytes, valid when all of them are 0.
#[repr(C)]
pub struct Condition {
    /// Around `waiters`.
    guard: Guard,
    waiters: Waiters,
    /// Waiters in the list, for a look without the guard.
    length: AtomicU32,
    /// Stays 0: `pthread_cond_t` keeps its attributes here from glibc 2.42 on.
    unused: u32,
    /// Not ours: before 2.42 `pthread_cond_t` keeps its attributes in the second.
    pub attributes: [u32; 4],
}

/// A thread's place in the list of a condition.
///
/// It must not move between [`Ticket::enlist`] and the end of [`Ticket::sleep`].
pub struct Ticket<'a> {
    waiter: Waiter,
    condition: &'a Condition,
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Notified, or woken for no reason.
    Notified,
    /// The deadline came first.
    TimedOut,
    /// The caller said that it will not wait any longer.
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
        /// A condition nobody waits for.
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

    /// Leaves the lock, waits to be notified, enters the lock again.
    ///
    /// # Safety
    /// The caller is inside `lock`.
    pub unsafe fn wait(&self, lock: &Lock, deadline: Option<&Deadline>) -> Wake {
        // SAFETY: the caller's promise.
        unsafe { self.wait_unless(lock, deadline, |_| false) }
    }

    /// The same, but asks before each sleep whether the caller would rather not. It is
    /// told the word on which it will sleep, so that others can wake it to ask again.
    ///
    /// # Safety
    /// The caller is inside `lock`.
    pub unsafe fn wait_unless(
        &self,
        lock: &Lock,
        deadline: Option<&Deadline>,
        is_interrupted: impl Fn(*const AtomicU32) -> bool,
    ) -> Wake {
        let ticket = Ticket::new(self, lock);
        slices::uses_condition(lock);
        ticket.enlist();
        // SAFETY: the caller's promise.
        unsafe { lock.unlock() };
        let (wake, role) = ticket.sleep_for(deadline, is_interrupted);
        lock.reenter(role);
        wake
    }

    /// Notifies the thread that has waited longest; false when there was none.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.length.load(Ordering::Relaxed) != 0 && self.notify_oldest()
    }

    /// Notifies all that wait now; returns their number.
    #[inline]
    pub fn notify_all(&self) -> usize {
        if self.length.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.notify_everybody()
    }

    #[cold]
    fn notify_oldest(&self) -> bool {
        let claimed = {
            let inside = self.enter();
            // SAFETY: inside.
            let claimed = unsafe { self.waiters.claim_oldest() };
            inside.shorten(usize::from(claimed.is_some()));
            claimed
        };
        match claimed {
            // SAFETY: claimed by us.
            Some(waiter) => unsafe { tell(waiter) },
            None => return false,
        }
        true
    }

    #[cold]
    fn notify_everybody(&self) -> usize {
        let (claimed, count) = {
            let inside = self.enter();
            // SAFETY: inside.
            let (claimed, count) = unsafe { self.waiters.claim_all() };
            inside.shorten(count);
            (claimed, count)
        };
        // Newest first: the oldest comes to lie at the front of the lock's list.
        for waiter in claimed {
            // SAFETY: claimed by us.
            unsafe { tell(waiter) };
        }
        count
    }

    /// Whether the condition may be destroyed: waits for those that are just leaving,
    /// and says false when somebody still waits to be notified.
    pub fn is_abandoned(&self) -> bool {
        loop {
            let inside = self.enter();
            // SAFETY: inside.
            let (empty, all_leave) =
                unsafe { (self.waiters.is_empty(), self.waiters.all_are_leaving()) };
            drop(inside);
            if empty || !all_leave {
                return empty;
            }
            yield_now();
        }
    }

    fn enter(&self) -> Inside<'_> {
        if self.guard.enter() == Found::AnotherProcess {
            // SAFETY: inside.
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

/// Gives a notified waiter to its lock, or wakes it if it needs none of ours.
///
/// # Safety
/// Claimed by the caller, and not told yet.
unsafe fn tell(waiter: *const Waiter) {
    // SAFETY: a claimed waiter waits until it is told, and keeps its lock alive.
    unsafe {
        let lock = (*waiter).lock.as_ref();
        if let Some(lock) = lock {
            slices::uses_condition(lock);
        }
        // It goes to the lock by itself: nobody has to wake it.
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
    /// A place for a thread that will need `lock` afterwards.
    fn new(condition: &'a Condition, lock: *const Lock) -> Ticket<'a> {
        Ticket {
            waiter: Waiter::new(lock),
            condition,
        }
    }

    /// A place for a thread whose mutex is not one of ours.
    pub fn without_lock(condition: &'a Condition) -> Ticket<'a> {
        Ticket::new(condition, std::ptr::null())
    }

    /// Takes the place; from here on a notification counts.
    pub fn enlist(&self) {
        let condition = self.condition;
        let _inside = condition.enter();
        // SAFETY: inside; the ticket stays until the sleep has ended.
        unsafe { condition.waiters.push_front(&raw const self.waiter) };
        let length = condition.length.load(Ordering::Relaxed);
        condition.length.store(length + 1, Ordering::Relaxed);
    }

    /// Gives the place back; false when it was notified before.
    pub fn withdraw(&self) -> bool {
        if !self.waiter.decide(LEAVING) {
            return false;
        }
        let inside = self.condition.enter();
        // SAFETY: inside; only we unlink a waiter that is leaving.
        unsafe { self.condition.waiters.unlink(&raw const self.waiter) };
        inside.shorten(1);
        true
    }

    /// Sleeps until notified or the deadline has passed.
    pub fn sleep(&self, deadline: Option<&Deadline>) -> Wake {
        self.sleep_unless(deadline, |_| false)
    }

    /// The same; asks before each sleep, as [`Condition::wait_unless`] does.
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
            let why = if may_leave && is_interrupted(self.waiter.address()) {
                Wake::Interrupted
            } else if self.waiter.sleep(word, deadline.filter(|_| may_leave)) {
                continue;
            } else {
                Wake::TimedOut
            };
            if self.withdraw() {
                return (why, Role::Newcomer);
            }
            // Notified: what is left is to wait for the lock.
            may_leave = false;
        }
    }

    /// Looks for a notification while a core is free: a group's leader is often done
    /// before its followers could fall asleep.
    fn watch(&self) {
        let Some(mut spin) = Spin::for_a_notification() else {
            return;
        };
        if !self.waiter.step(ASLEEP, WATCHING) {
            return;
        }
        while self.waiter.word() == WATCHING && spin.again() {}
        let told = !self.waiter.step(WATCHING, ASLEEP);
        Spin::was_worth_it(told);
        if told {
            // Being told takes a moment, unless the notifier has lost its core.
            while self.waiter.word() == CLAIMED_WATCHING && spin.again() {}
            self.waiter.step(CLAIMED_WATCHING, CLAIMED);
        }
    }
}
