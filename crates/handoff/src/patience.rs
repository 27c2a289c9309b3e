//! How long a thread waits awake for others that want its core, and when not.
//!
//! Giving way to another thread takes some microseconds, and that one gets on with what this
//! one waits for. Somebody who computes keeps the core for milliseconds: then it is better
//! to sleep, since the kernel prefers whoever has slept. Those who wait seldom keep the core for so
//! long, so a thread that is late once sleeps at once a few times, and one that is late
//! again and again for longer and longer.
//!
//! RocksDB's write threads wait in much the same way (`enable_write_thread_adaptive_yield`).

use std::cell::Cell;

use crate::clock;
use crate::sync::yield_now;

/// After so many groups, or so long, a leader goes on with its own affairs.
pub(crate) const GROUPS_MAX: u32 = 16;
pub(crate) const LEADS_MICROS_MAX: u32 = 1_000;
/// So often a thread gives way for one answer.
const WAYS_GIVEN_MAX: u32 = 50;
/// So long it is patient, and so much longer for each other that waits: of many each waits for
/// what all the others want done.
const AWAKE_MICROS_MAX: u32 = 2_000;
const AWAKE_FOR_EACH_MICROS_MAX: u32 = 40;
/// More than that many others make no difference.
const OTHERS_MAX: u32 = 1 << 16;
/// Waits for which a thread sleeps at once after it was late, the first time and at most.
const SLEEPS_MIN: u32 = 8;
const SLEEPS_MAX: u32 = 1024;

/// What a thread has met lately, wherever it waited: those share its core.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Luck {
    /// Waits for which it still sleeps at once.
    sleeps_left: u32,
    /// Those of the next time.
    sleeps_next: u32,
}

impl Luck {
    const NEW: Luck = Luck {
        sleeps_left: 0,
        sleeps_next: SLEEPS_MIN,
    };

    fn after_a_late_answer(self) -> Luck {
        Luck {
            sleeps_left: self.sleeps_next,
            sleeps_next: (self.sleeps_next * 2).min(SLEEPS_MAX),
        }
    }

    fn after_an_early_answer(self) -> Luck {
        let next = self.sleeps_next;
        Luck {
            sleeps_next: (next - next / 8).max(SLEEPS_MIN),
            ..self
        }
    }

    /// One sleep less, if there is one left.
    fn slept(self) -> Option<Luck> {
        let sleeps_left = self.sleeps_left.checked_sub(1)?;
        Some(Luck {
            sleeps_left,
            ..self
        })
    }
}

thread_local! {
    static LUCK: Cell<Luck> = const { Cell::new(Luck::NEW) };
}

/// A thread's, for one answer.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let done = AtomicBool::new(false);
/// std::thread::scope(|scope| {
///     let other = scope.spawn(|| done.store(true, Ordering::Release));
///     if let Some(mut patience) = handoff::Patience::new(0) {
///         loop {
///             if done.load(Ordering::Acquire) {
///                 break patience.paid_off();
///             }
///             if !patience.give_way() {
///                 break;
///             }
///         }
///     }
///     // Whoever is still not sure sleeps.
///     other.join().unwrap();
/// });
/// ```
#[derive(Debug)]
pub struct Patience {
    /// As [`clock::micros`] counts.
    ends: u32,
    ways_left: u32,
}

impl Patience {
    /// Beside so many others that wait. None: this time the thread sleeps at once.
    pub fn new(others: usize) -> Option<Patience> {
        if let Some(luck) = LUCK.get().slept() {
            LUCK.set(luck);
            return None;
        }
        let others = u32::try_from(others).map_or(OTHERS_MAX, |it| it.min(OTHERS_MAX));
        let patience = AWAKE_MICROS_MAX + AWAKE_FOR_EACH_MICROS_MAX * others;
        Some(Patience {
            ends: clock::micros().wrapping_add(patience),
            ways_left: WAYS_GIVEN_MAX,
        })
    }

    /// Lets others have the core; false when it is time to sleep.
    pub fn give_way(&mut self) -> bool {
        yield_now();
        if clock::has_come(self.ends, clock::micros()) {
            LUCK.set(LUCK.get().after_a_late_answer());
            return false;
        }
        self.ways_left = self.ways_left.saturating_sub(1);
        self.ways_left > 0
    }

    /// The answer came.
    pub fn paid_off(self) {
        LUCK.set(LUCK.get().after_an_early_answer());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_late_again_and_again_sleeps_longer_and_longer() {
        let once = Luck::NEW.after_a_late_answer();
        assert_eq!(once.sleeps_left, SLEEPS_MIN);
        let twice = once.after_a_late_answer();
        assert_eq!(twice.sleeps_left, 2 * SLEEPS_MIN);
        let often = (0..20).fold(twice, |luck, _| luck.after_a_late_answer());
        assert_eq!(often.sleeps_left, SLEEPS_MAX);
    }

    #[test]
    fn patience_comes_back_with_answers_that_come_early() {
        let lost = (0..20).fold(Luck::NEW, |luck, _| luck.after_a_late_answer());
        let found = (0..100).fold(lost, |luck, _| luck.after_an_early_answer());
        assert_eq!(found.sleeps_next, SLEEPS_MIN);
    }

    #[test]
    fn a_lost_patience_ends_with_the_waits_it_was_lost_for() {
        LUCK.set(Luck::NEW.after_a_late_answer());
        let slept = (0..100).filter(|_| Patience::new(0).is_none()).count();
        assert_eq!(slept, SLEEPS_MIN as usize);
    }

    #[test]
    fn nobody_gives_way_for_ever() {
        LUCK.set(Luck::NEW);
        let mut patience = Patience::new(usize::MAX).unwrap();
        let given = (0..1000).take_while(|_| patience.give_way()).count();
        assert!(given < WAYS_GIVEN_MAX as usize);
    }
}
