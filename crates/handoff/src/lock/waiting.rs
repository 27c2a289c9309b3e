//! The way in when there is company: stepping back, competing, parking, sleeping.

use super::{HEIR_EXISTS, LOCKED, Lock, PARKED, RESERVED, Role};
use crate::clock;
use crate::futex::Deadline;
use crate::hints;
use crate::slices;
use crate::spinning::{self, Spin};
use crate::sync::Ordering;
use crate::waiters::{ASLEEP, NOTIFIED, Waiter};

impl Lock {
    /// Waits until inside; false when the deadline came first.
    #[cold]
    pub(super) fn acquire(&self, mut role: Role, deadline: Option<&Deadline>) -> bool {
        // A timed wait must not end in vain while the lock is free.
        let state = self.state.load(Ordering::Relaxed);
        let may_step_back = deadline.is_none() && state & PARKED != 0;
        if may_step_back && slices::is_over(self) {
            // The heir, if there is one, may be waiting for another core.
            let leaves_a_core = state & HEIR_EXISTS != 0 && !spinning::somebody_takes_this_core();
            let waiter = Waiter::stepping_back(self);
            if self.step_back(&waiter, leaves_a_core)
                && let Some(told) = self.sleep(&waiter, role, None)
            {
                role = told;
                slices::begin(self);
            }
        }
        self.compete_and_park(role, deadline)
    }

    /// The same for whoever need not step back.
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
                Some(told) => role = told,
                None => return false,
            }
        }
    }

    /// Parks a newcomer behind the others even if the lock is free; then it takes the lock
    /// first, so that it is a holder that leaves by way of the list, with itself in it.
    /// If it leaves a core that nobody has use for, it brings another one. False when there is
    /// nobody to step back for, or somebody else was quicker.
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

    /// Wakes an old waiter as a newcomer, beside the heir, unless the lock is reserved: then the
    /// oldest may be the one that has to come. Rather one of this core: another would be woken
    /// on its own, and this one stay idle.
    fn bring_a_successor(&self, leaving: &Waiter) {
        let inside = self.enter();
        if self.state.load(Ordering::Relaxed) & RESERVED != 0 {
            return;
        }
        // SAFETY: inside.
        let Some(successor) = (unsafe { self.waiters.pop_successor(leaving) }) else {
            return;
        };
        inside.note_if_empty();
        drop(inside);
        // SAFETY: unlinked by us alone.
        unsafe { Waiter::wake(successor, NOTIFIED) };
    }

    /// Takes a free lock, looking at it for as long as spinning makes sense.
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

    /// A spinner spares the unlocker a wake-up, but must not take the turn of the
    /// oldest waiter: while an heir exists, nobody else is chosen.
    fn may_become_heir(&self, state: u32) -> bool {
        state & HEIR_EXISTS == 0
            && (state & PARKED == 0
                || !clock::has_come(self.turn.load(Ordering::Relaxed), clock::micros()))
    }

    /// Links the waiter and gives up being heir, unless the lock is to be had.
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

    /// Enters after a condition variable's call.
    pub(crate) fn reenter(&self, role: Role) {
        self.compete_and_park(role, None);
        self.entered();
    }

    /// Waits for the lock's call; none when the deadline came first.
    fn sleep(&self, waiter: &Waiter, role: Role, deadline: Option<&Deadline>) -> Option<Role> {
        let mut deadline = deadline;
        hints::waits(self);
        let told = loop {
            if let Some(told) = Role::of_word(waiter.word()) {
                break Some(told);
            }
            if !waiter.sleep(ASLEEP, deadline) {
                if self.give_up(waiter, role) {
                    break None;
                }
                // It has been chosen: the call is on its way.
                deadline = None;
            }
        };
        hints::waits_no_more();
        told
    }

    /// Unlinks a waiter whose time is up; false if it was chosen before.
    fn give_up(&self, waiter: &Waiter, role: Role) -> bool {
        let inside = self.enter();
        // SAFETY: inside, and a parked waiter is in no other list.
        if !unsafe { self.waiters.unlink(waiter) } {
            return false;
        }
        if role == Role::DueHeir {
            // A due heir parks only while the lock is held, and whoever holds
            // it leaves by way of the list, which is ours now.
            self.state.fetch_and(!RESERVED, Ordering::Relaxed);
        }
        inside.note_if_empty();
        true
    }
}
