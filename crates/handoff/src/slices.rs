//! Who has had enough of a lock for now, and steps back.
//!
//! Turns bound the time until each waiter is chosen. They do not make shares equal: a
//! thread that is chosen goes on competing for as long as it runs, and being the newest
//! brings it back when it has parked. So each thread has a slice of time at a lock,
//! which begins when it is chosen as the oldest. A thread that wants in after its slice,
//! while others are parked, parks behind them all.
//!
//! Nobody steps back on whom others may depend:
//!
//! * who is inside another lock, because those that wait for it would wait along;
//! * who uses a condition with this lock. The leader of a group enters the same lock
//!   before and after it does the group's work, and the lock cannot tell whether
//!   everybody is waiting for it. (LevelDB's writers lost most of their throughput.)

use std::cell::Cell;

use crate::clock;
use crate::lock::Lock;

/// How long a thread may go on at a lock while others are parked.
const SLICE_MICROS: u32 = 500;
/// A slice that began so long ago was not used up, or the thread would have stepped back:
/// it was away, or another had its core. It begins anew.
const FORGOTTEN_MICROS: u32 = 2 * SLICE_MICROS;
/// Locks that a thread remembers.
const PLACES: usize = 4;

/// A thread's time at one lock.
#[derive(Clone, Copy)]
struct Slice {
    /// A name only: the lock may be gone.
    lock: *const Lock,
    /// In [`clock::micros`].
    began: u32,
    uses_conditions: bool,
}

const NO_SLICE: Slice = Slice {
    lock: std::ptr::null(),
    began: 0,
    uses_conditions: false,
};

thread_local! {
    static SLICES: [Cell<Slice>; PLACES] = const { [const { Cell::new(NO_SLICE) }; PLACES] };
    /// Locks that the thread is inside of.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The thread has entered a lock, or begun something else that others may wait for.
#[inline(always)]
pub(crate) fn entered() {
    DEPTH.set(DEPTH.get().wrapping_add(1));
}

/// The thread is about to leave a lock; it need not be the one that entered.
#[inline(always)]
pub(crate) fn left() {
    DEPTH.set(DEPTH.get().saturating_sub(1));
}

/// Whether nobody can depend on the thread when it wants into this lock.
pub(crate) fn may_step_back(lock: &Lock) -> bool {
    DEPTH.get() == 0 && !slice_at(lock).is_some_and(|slice| slice.uses_conditions)
}

/// Whether the thread should step back.
pub(crate) fn is_over(lock: &Lock) -> bool {
    may_step_back(lock) && is_over_at(lock, clock::micros())
}

fn is_over_at(lock: &Lock, now: u32) -> bool {
    let used = slice_at(lock).map(|slice| now.wrapping_sub(slice.began));
    match used {
        Some(used) if used < FORGOTTEN_MICROS => used >= SLICE_MICROS,
        _ => {
            begin_at(lock, now);
            false
        }
    }
}

/// The thread has been chosen as the oldest.
pub(crate) fn begin(lock: &Lock) {
    begin_at(lock, clock::micros());
}

/// The thread waits for a condition, or notifies another, that will need this lock.
pub(crate) fn uses_condition(lock: &Lock) {
    change(lock, |slice| slice.uses_conditions = true);
}

fn begin_at(lock: &Lock, now: u32) {
    change(lock, |slice| slice.began = now);
}

fn slice_at(lock: &Lock) -> Option<Slice> {
    let slice = SLICES.with(|slices| slices[place_of(lock)].get());
    std::ptr::eq(slice.lock, lock).then_some(slice)
}

fn change(lock: &Lock, change: impl FnOnce(&mut Slice)) {
    let mut slice = slice_at(lock).unwrap_or(Slice { lock, ..NO_SLICE });
    change(&mut slice);
    SLICES.with(|slices| slices[place_of(lock)].set(slice));
}

fn place_of(lock: &Lock) -> usize {
    // Locks are 8 bytes aligned and 40 long.
    (std::ptr::from_ref(lock).addr() >> 4) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_and_begins_anew() {
        let lock = Lock::new();
        let begin = u32::MAX - 100;
        let after = |micros: u32| is_over_at(&lock, begin.wrapping_add(micros));
        assert!(!after(0), "the first look begins it");
        assert!(!after(SLICE_MICROS - 1));
        assert!(after(SLICE_MICROS) && after(FORGOTTEN_MICROS - 1));
        begin_at(&lock, begin.wrapping_add(SLICE_MICROS));
        assert!(!after(FORGOTTEN_MICROS - 1), "chosen again");
        assert!(after(2 * SLICE_MICROS));
    }

    #[test]
    fn whoever_was_away_begins_anew() {
        let lock = Lock::new();
        begin_at(&lock, 0);
        assert!(!is_over_at(&lock, FORGOTTEN_MICROS));
        assert!(is_over_at(&lock, FORGOTTEN_MICROS + SLICE_MICROS));
    }

    #[test]
    fn nobody_steps_back_on_whom_others_may_depend() {
        let (outer, inner) = (Lock::new(), Lock::new());
        assert!(may_step_back(&inner));
        outer.lock();
        assert!(!may_step_back(&inner), "inside another lock");
        // SAFETY: just entered.
        unsafe { outer.unlock() };
        assert!(may_step_back(&inner));
        uses_condition(&inner);
        assert!(!may_step_back(&inner), "a group's leader, perhaps");
    }

    #[test]
    fn a_lock_left_by_another_thread_leaves_the_depth_alone() {
        let lock = Lock::new();
        left();
        assert!(may_step_back(&lock));
    }
}
