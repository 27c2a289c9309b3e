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
/// After a look at the clock so soon after the one before, so many entries go without one: while
/// they stay as quick they make a slice longer by a quarter at most, and a look costs more than
/// an entry.
const SOON_MICROS: u32 = 16;
const ENTRIES_WITHOUT_A_LOOK: u32 = 7;
/// Locks that a thread remembers.
const PLACES: usize = 4;

/// A thread's time at one lock.
#[derive(Clone, Copy)]
struct Slice {
    /// A name only: the lock may be gone.
    lock: *const Lock,
    /// In [`clock::micros`].
    began: u32,
    /// The last look at the clock.
    looked: u32,
    /// Entries that go without one.
    without_a_look: u32,
    uses_conditions: bool,
}

const NO_SLICE: Slice = Slice {
    lock: std::ptr::null(),
    began: 0,
    looked: 0,
    without_a_look: 0,
    uses_conditions: false,
};

/// What a thread knows of itself; together, because finding it costs a call in a library.
struct Thread {
    /// Locks that it is inside of.
    depth: Cell<u32>,
    slices: [Cell<Slice>; PLACES],
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            depth: Cell::new(0),
            slices: [const { Cell::new(NO_SLICE) }; PLACES],
        }
    };
}

impl Thread {
    fn place_of(&self, lock: &Lock) -> &Cell<Slice> {
        // Locks are 40 bytes long.
        &self.slices[(std::ptr::from_ref(lock).addr() >> 4) % PLACES]
    }

    fn slice_at(&self, lock: &Lock) -> Option<Slice> {
        let slice = self.place_of(lock).get();
        std::ptr::eq(slice.lock, lock).then_some(slice)
    }

    fn begin(&self, lock: &Lock, now: u32) {
        let slice = self.slice_at(lock).unwrap_or(NO_SLICE);
        self.place_of(lock).set(Slice {
            lock,
            began: now,
            without_a_look: 0,
            ..slice
        });
    }

    /// Whether it is too soon to look at the clock again.
    fn passes_over_a_look(&self, lock: &Lock, slice: Option<Slice>) -> bool {
        let Some(slice) = slice else { return false };
        let Some(without_a_look) = slice.without_a_look.checked_sub(1) else {
            return false;
        };
        self.place_of(lock).set(Slice {
            without_a_look,
            ..slice
        });
        true
    }

    fn note_a_look(&self, lock: &Lock, now: u32) {
        let Some(slice) = self.slice_at(lock) else {
            return;
        };
        let is_soon = now.wrapping_sub(slice.looked) < SOON_MICROS;
        self.place_of(lock).set(Slice {
            looked: now,
            without_a_look: if is_soon { ENTRIES_WITHOUT_A_LOOK } else { 0 },
            ..slice
        });
    }

    fn may_step_back(&self, slice: Option<Slice>) -> bool {
        self.depth.get() == 0 && !slice.is_some_and(|slice| slice.uses_conditions)
    }

    fn is_over(&self, lock: &Lock, slice: Option<Slice>, now: u32) -> bool {
        match slice.map(|slice| now.wrapping_sub(slice.began)) {
            Some(used) if used < FORGOTTEN_MICROS => used >= SLICE_MICROS,
            _ => {
                self.begin(lock, now);
                false
            }
        }
    }
}

/// The thread has entered a lock, or begun something else that others may wait for.
#[inline(always)]
pub(crate) fn entered() {
    THREAD.with(|thread| thread.depth.set(thread.depth.get().wrapping_add(1)));
}

/// The thread is about to leave a lock; it need not be the one that entered.
#[inline(always)]
pub(crate) fn left() {
    THREAD.with(|thread| thread.depth.set(thread.depth.get().saturating_sub(1)));
}

/// Whether nobody can depend on the thread when it wants into this lock.
pub(crate) fn may_step_back(lock: &Lock) -> bool {
    THREAD.with(|thread| thread.may_step_back(thread.slice_at(lock)))
}

/// Whether the thread should step back.
pub(crate) fn is_over(lock: &Lock) -> bool {
    THREAD.with(|thread| {
        let slice = thread.slice_at(lock);
        if !thread.may_step_back(slice) || thread.passes_over_a_look(lock, slice) {
            return false;
        }
        let now = clock::micros();
        let is_over = thread.is_over(lock, slice, now);
        if !is_over {
            thread.note_a_look(lock, now);
        }
        is_over
    })
}

/// The thread has been chosen as the oldest.
pub(crate) fn begin(lock: &Lock) {
    THREAD.with(|thread| thread.begin(lock, clock::micros()));
}

/// The thread waits for a condition, or notifies another, that will need this lock.
pub(crate) fn uses_condition(lock: &Lock) {
    THREAD.with(|thread| {
        let slice = thread.slice_at(lock);
        if !slice.is_some_and(|slice| slice.uses_conditions) {
            thread.place_of(lock).set(Slice {
                lock,
                uses_conditions: true,
                ..slice.unwrap_or(NO_SLICE)
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over_at(lock: &Lock, now: u32) -> bool {
        THREAD.with(|thread| thread.is_over(lock, thread.slice_at(lock), now))
    }

    fn begin_at(lock: &Lock, now: u32) {
        THREAD.with(|thread| thread.begin(lock, now));
    }

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
    fn quick_entries_look_at_the_clock_now_and_then_and_slow_ones_always() {
        let lock = Lock::new();
        let looks_at = |now: u32| {
            THREAD.with(|thread| {
                let looks = !thread.passes_over_a_look(&lock, thread.slice_at(&lock));
                if looks {
                    thread.note_a_look(&lock, now);
                }
                looks
            })
        };
        begin_at(&lock, 0);
        let quick = (1..=800_u32).filter(|entry| looks_at(entry / 8)).count();
        assert_eq!(quick, 100);
        let slow = (1..=100).filter(|entry| looks_at(1000 + entry * SOON_MICROS));
        assert!(slow.count() > 90);
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
