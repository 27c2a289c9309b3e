//! The slow path into a lock: stepping back, competing, parking, sleeping.

use super::{HEIR_EXISTS, LOCKED, Lock, PARKED, RESERVED, Role};
use crate::clock;
use crate::futex::Deadline;
use crate::hints;
use crate::slices;
use crate::spinning::{self, Spin};
use crate::sync::Ordering;
use crate::waiters::{ASLEEP, NOTIFIED, Waiter};

impl Lock {
    /// Acquires the lock, waiting for it; false once the deadline has passed.
    #[cold]
    pub(super) fn acquire(&self, mut role: Role, deadline: Option<&Deadline>) -> bool {
        // A timed wait does not step back: it could time out although the lock is free.
        let state = self.state.load(Ordering::Relaxed);
        let may_step_back = deadline.is_none() && state & PARKED != 0;
        if may_step_back && slices::is_over(self.address()) {
            // If no thread takes this core, the heir waits for a different one.
            let leaves_a_core = state & HEIR_EXISTS != 0 && !spinning::yielded_to_another();
            let waiter = Waiter::stepping_back(self);
            if self.step_back(&waiter, leaves_a_core)
                && let Some(assigned) = self.sleep(&waiter, role, None)
            {
                role = assigned;
                slices::begin(self.address());
            }
        }
        self.compete_and_park(role, deadline)
    }

    /// Acquires the lock as [`Lock::acquire`] does, without stepping back.
    fn compete_and_park(&self, mut role: Role, deadline: Option<&Deadline>) -> bool {
        loop {
            if role == Role::Owner || self.compete(&mut role) {
                return true;
            }
            let waiter = Waiter::new(self);
            if !self.park(&waiter, role) {
                continue;
            }
            match self.sleep(&waiter, role, deadline) {
                Some(assigned) => role = assigned,
                None => return false,
            }
        }
    }

    /// Parks a newcomer as a waiter that does not count as new, even if the lock is free. It
    /// takes a free lock first, so that it parks as a holder and then unlocks, which wakes
    /// a waiter. If it `leaves_a_core` that no thread wants, it also wakes a successor.
    /// Returns false, without parking, if no waiter is parked or the lock changed hands.
    fn step_back(&self, waiter: &Waiter, leaves_a_core: bool) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state & PARKED == 0 {
            return false;
        }
        if state & (LOCKED | RESERVED) != 0 {
            if !self.park(waiter, Role::Newcomer) {
                return false;
            }
        } else if self.step(state, state | LOCKED, Ordering::Acquire) {
            let inside = self.enter();
            self.state.fetch_or(PARKED, Ordering::Relaxed);
            inside.link(waiter, false);
            drop(inside);
            self.unlock_slowly();
        } else {
            return false;
        }
        if leaves_a_core {
            self.bring_a_successor(waiter);
        }
        true
    }

    /// Wakes an old waiter as a newcomer, in addition to the heir, unless the lock is
    /// reserved: then the oldest may be the due heir, the only thread that may enter. Prefers
    /// a waiter of this core: another would be woken on its own core, and this one stay idle.
    fn bring_a_successor(&self, leaving: &Waiter) {
        let inside = self.enter();
        if self.state.load(Ordering::Relaxed) & RESERVED != 0 {
            return;
        }
        // SAFETY: this thread holds the guard.
        let Some(successor) = (unsafe { self.waiters.pop_successor(leaving) }) else {
            return;
        };
        inside.note_if_empty();
        drop(inside);
        // SAFETY: this thread alone has unlinked it.
        unsafe { Waiter::wake(successor, NOTIFIED) };
    }

    /// Takes the lock, spinning while it is held if a core is free; false if the thread
    /// should park. A spinning newcomer may become the heir.
    fn compete(&self, role: &mut Role) -> bool {
        let mut spin: Option<Spin> = None;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            let overtaken = state & RESERVED & !role.bits() != 0;
            if state & LOCKED == 0 && !overtaken {
                let taken = (state | LOCKED) & !role.bits();
                if self.step(state, taken, Ordering::Acquire) {
                    return true;
                }
                continue;
            }
            if *role == Role::DueHeir && state & RESERVED == 0 {
                self.step(state, state | RESERVED, Ordering::Relaxed);
                continue;
            }
            if overtaken || hints::holder_is_preempted(&self.holder) {
                return false;
            }
            if spin.is_none() {
                spin = Spin::begin(*role != Role::Newcomer);
            }
            let Some(spin) = &mut spin else { return false };
            if *role == Role::Newcomer && self.may_become_heir(state) {
                if self.step(state, state | HEIR_EXISTS, Ordering::Relaxed) {
                    *role = Role::Heir;
                    spin.extend();
                }
                continue;
            }
            if !spin.again() {
                return false;
            }
        }
    }

    /// Whether a spinning newcomer may become the heir. That saves the unlocker a wake-up,
    /// but must not take the turn of the oldest waiter, which is not chosen while an heir
    /// exists.
    fn may_become_heir(&self, state: u32) -> bool {
        state & HEIR_EXISTS == 0
            && (state & PARKED == 0
                || !clock::has_come(self.turn.load(Ordering::Relaxed), clock::micros()))
    }

    /// Links the waiter and gives up the role of heir; false, without linking, if this
    /// thread can take the lock.
    fn park(&self, waiter: &Waiter, role: Role) -> bool {
        let inside = self.enter();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let overtaken = state & RESERVED & !role.bits() != 0;
            if state & LOCKED == 0 && !overtaken {
                return false;
            }
            // A due heir keeps its reservation.
            let parked = (state | PARKED) & !(role.bits() & HEIR_EXISTS);
            if self.step(state, parked, Ordering::Relaxed) {
                break;
            }
            state = self.state.load(Ordering::Relaxed);
        }
        inside.link(waiter, role == Role::DueHeir);
        true
    }

    /// Acquires the lock again after a wait for a condition variable, in the role that the
    /// wait has ended with.
    pub(crate) fn reenter(&self, role: Role) {
        self.compete_and_park(role, None);
        self.entered();
    }

    /// Sleeps until the waiter's word assigns a role; none if the deadline passed first.
    fn sleep(&self, waiter: &Waiter, role: Role, deadline: Option<&Deadline>) -> Option<Role> {
        let mut deadline = deadline;
        hints::waits(self.address());
        let assigned = loop {
            if let Some(assigned) = Role::of_word(waiter.word()) {
                break Some(assigned);
            }
            if !waiter.sleep(ASLEEP, deadline) {
                if self.give_up(waiter, role) {
                    break None;
                }
                // Another thread has chosen the waiter and is about to assign its role.
                deadline = None;
            }
        };
        hints::waits_no_more();
        assigned
    }

    /// Unlinks a waiter whose deadline has passed; false if it was chosen before.
    fn give_up(&self, waiter: &Waiter, role: Role) -> bool {
        let inside = self.enter();
        // SAFETY: this thread holds the guard, and a parked waiter is in no other list.
        if !unsafe { self.waiters.unlink(waiter) } {
            return false;
        }
        if role == Role::DueHeir {
            // A due heir parks only while the lock is held. The holder must enter the guard,
            // which this thread has, before it can leave, so the reservation is unused.
            self.state.fetch_and(!RESERVED, Ordering::Relaxed);
        }
        inside.note_if_empty();
        true
    }
}
