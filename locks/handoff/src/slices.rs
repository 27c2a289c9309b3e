//! Slices: how long a thread may use a contended lock before it lets others go first.
//!
//! Turns bound the time until each waiter is chosen. They do not make shares equal: a
//! thread that is chosen goes on competing for as long as it runs, and as the newest waiter
//! it is chosen again soon after it has parked. So each thread has a slice of time at a lock,
//! which begins when it first finds other threads parked there, and again each time it is
//! chosen after it has stepped back. A thread that wants to enter after its slice, while
//! others are parked, steps back: it parks, and does not count as new.
//!
//! A thread on which others may depend does not step back:
//!
//! * A thread that holds another lock, because the threads that wait for that one would wait
//!   along.
//! * A thread that uses a condition with this lock. The leader of a group enters the same lock
//!   before and after it does the group's work, and the lock cannot see whether all the others
//!   wait for it. (LevelDB's writers lost most of their throughput.)

use std::cell::Cell;

use crate::clock;

/// Length of a slice.
const SLICE_MICROS: u32 = 500;
/// Age at which a slice is replaced by a new one. The thread has not used it up, or it would
/// have stepped back: it used other things, or had no core.
const FORGOTTEN_MICROS: u32 = 2 * SLICE_MICROS;
/// If two looks at the clock are less than [`SOON_MICROS`] apart, the next
/// [`ENTRIES_WITHOUT_A_LOOK`] entries do without one, because a look costs more than an entry.
/// While entries stay as quick, this makes a slice longer by a quarter at most.
const SOON_MICROS: u32 = 16;
const ENTRIES_WITHOUT_A_LOOK: u32 = 7;
/// Number of locks that a thread remembers.
const PLACES: usize = 4;

/// Address of a lock.
type Address = *const ();

/// A thread's time at one lock.
#[derive(Clone, Copy)]
struct Slice {
    /// Only compared, never dereferenced: the lock may be gone.
    lock: Address,
    /// Begin of the slice, as [`clock::micros`] counts.
    began: u32,
    /// Moment of the last look at the clock.
    looked: u32,
    /// Number of coming entries that do without a look at the clock.
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

/// A thread's own state, in one variable because in a shared library each access to a
/// thread-local variable costs a call.
struct Thread {
    /// Number of locks that it holds.
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
    fn place_of(&self, lock: Address) -> &Cell<Slice> {
        // Locks are 40 bytes long.
        &self.slices[(lock.addr() >> 4) % PLACES]
    }

    fn slice_at(&self, lock: Address) -> Option<Slice> {
        let slice = self.place_of(lock).get();
        std::ptr::eq(slice.lock, lock).then_some(slice)
    }

    fn begin(&self, lock: Address, now: u32) {
        let slice = self.slice_at(lock).unwrap_or(NO_SLICE);
        self.place_of(lock).set(Slice {
            lock,
            began: now,
            without_a_look: 0,
            ..slice
        });
    }

    /// Whether this entry does without a look at the clock; counts it.
    fn passes_over_a_look(&self, lock: Address, slice: Option<Slice>) -> bool {
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

    fn note_a_look(&self, lock: Address, now: u32) {
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

    fn is_over(&self, lock: Address, slice: Option<Slice>, now: u32) -> bool {
        match slice.map(|slice| now.wrapping_sub(slice.began)) {
            Some(used) if used < FORGOTTEN_MICROS => used >= SLICE_MICROS,
            _ => {
                self.begin(lock, now);
                false
            }
        }
    }
}

/// Notes that the thread has entered a lock, or begun other work that threads may wait for.
#[inline(always)]
pub(crate) fn entered() {
    THREAD.with(|thread| thread.depth.set(thread.depth.get().wrapping_add(1)));
}

/// Notes that the thread is about to leave a lock. Another thread may have entered the lock.
#[inline(always)]
pub(crate) fn left() {
    THREAD.with(|thread| thread.depth.set(thread.depth.get().saturating_sub(1)));
}

/// Whether the thread may step back from this lock, because no other can depend on it.
pub(crate) fn may_step_back(lock: Address) -> bool {
    THREAD.with(|thread| thread.may_step_back(thread.slice_at(lock)))
}

/// Whether the thread should step back: it may, and its slice at this lock is over.
pub(crate) fn is_over(lock: Address) -> bool {
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

/// Begins a new slice, because the thread was chosen after it had stepped back.
pub(crate) fn begin(lock: Address) {
    THREAD.with(|thread| thread.begin(lock, clock::micros()));
}

/// Notes that the thread waits for a condition with this lock, or notifies a thread that does.
pub(crate) fn uses_condition(lock: Address) {
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
    use crate::lock::Lock;

    fn is_over_at(lock: Address, now: u32) -> bool {
        THREAD.with(|thread| thread.is_over(lock, thread.slice_at(lock), now))
    }

    fn begin_at(lock: Address, now: u32) {
        THREAD.with(|thread| thread.begin(lock, now));
    }

    #[test]
    fn a_slice_ends_and_a_new_one_begins() {
        let lock = Lock::new();
        let begin = u32::MAX - 100;
        let after = |micros: u32| is_over_at(lock.address(), begin.wrapping_add(micros));
        assert!(!after(0), "the first look begins it");
        assert!(!after(SLICE_MICROS - 1));
        assert!(after(SLICE_MICROS) && after(FORGOTTEN_MICROS - 1));
        begin_at(lock.address(), begin.wrapping_add(SLICE_MICROS));
        assert!(!after(FORGOTTEN_MICROS - 1), "chosen again");
        assert!(after(2 * SLICE_MICROS));
    }

    #[test]
    fn quick_entries_look_at_the_clock_now_and_then_and_slow_ones_always() {
        let lock = Lock::new();
        let looks_at = |now: u32| {
            THREAD.with(|thread| {
                let looks =
                    !thread.passes_over_a_look(lock.address(), thread.slice_at(lock.address()));
                if looks {
                    thread.note_a_look(lock.address(), now);
                }
                looks
            })
        };
        begin_at(lock.address(), 0);
        let quick = (1..=800_u32).filter(|entry| looks_at(entry / 8)).count();
        assert_eq!(quick, 100);
        let slow = (1..=100).filter(|entry| looks_at(1000 + entry * SOON_MICROS));
        assert!(slow.count() > 90);
    }

    #[test]
    fn a_forgotten_slice_is_replaced_by_a_new_one() {
        let lock = Lock::new();
        begin_at(lock.address(), 0);
        assert!(!is_over_at(lock.address(), FORGOTTEN_MICROS));
        assert!(is_over_at(lock.address(), FORGOTTEN_MICROS + SLICE_MICROS));
    }

    #[test]
    fn a_thread_on_which_others_may_depend_does_not_step_back() {
        let (outer, inner) = (Lock::new(), Lock::new());
        assert!(may_step_back(inner.address()));
        outer.lock();
        assert!(!may_step_back(inner.address()), "inside another lock");
        // SAFETY: locked just now.
        unsafe { outer.unlock() };
        assert!(may_step_back(inner.address()));
        uses_condition(inner.address());
        assert!(!may_step_back(inner.address()), "a group's leader, perhaps");
    }

    #[test]
    fn a_lock_left_by_another_thread_leaves_the_depth_alone() {
        let lock = Lock::new();
        left();
        assert!(may_step_back(lock.address()));
    }
}
