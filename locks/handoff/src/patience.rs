//! How long a thread waits awake, yielding its core, before it sleeps.
//!
//! A yield mostly takes some microseconds, in which another thread goes on with the work that
//! this one waits for. A thread that computes keeps the core for milliseconds; then it is
//! better to sleep, since the kernel prefers threads that have slept. So after a late answer a
//! thread sleeps at once in its next few waits, and in more of them if its answers are late
//! again and again.
//!
//! RocksDB's write threads wait in much the same way (`enable_write_thread_adaptive_yield`).

use std::cell::Cell;

use crate::clock;
use crate::sync::yield_now;

/// Groups, and microseconds, after which a leader passes the leadership on.
pub(crate) const GROUPS_MAX: u32 = 16;
pub(crate) const LEADS_MICROS_MAX: u32 = 1_000;
/// Yields for one answer.
const YIELDS_MAX: u32 = 50;
/// Microseconds for which a thread waits awake, and additional ones for each other thread that
/// waits: the more there are, the more work precedes an answer.
const AWAKE_MICROS_MAX: u32 = 2_000;
const AWAKE_FOR_EACH_MICROS_MAX: u32 = 40;
/// Other waiting threads that count; more make no difference.
const OTHERS_MAX: u32 = 1 << 16;
/// Waits in which a thread sleeps at once after a late answer: at first, and at most.
const SLEEPS_MIN: u32 = 8;
const SLEEPS_MAX: u32 = 1024;

/// How late the answers to a thread have been. It is the same for all that a thread waits for,
/// because it depends on the threads that share its core.
#[derive(Clone, Copy, Debug, PartialEq)]
struct History {
    /// Waits in which the thread still sleeps at once.
    sleeps_left: u32,
    /// Value of `sleeps_left` after the next late answer.
    sleeps_next: u32,
}

impl History {
    const NEW: History = History {
        sleeps_left: 0,
        sleeps_next: SLEEPS_MIN,
    };

    fn after_a_late_answer(self) -> History {
        History {
            sleeps_left: self.sleeps_next,
            sleeps_next: (self.sleeps_next * 2).min(SLEEPS_MAX),
        }
    }

    fn after_an_early_answer(self) -> History {
        let next = self.sleeps_next;
        History {
            sleeps_next: (next - next / 8).max(SLEEPS_MIN),
            ..self
        }
    }

    /// The history after one sleep at once; none if the thread should wait awake.
    fn slept(self) -> Option<History> {
        let sleeps_left = self.sleeps_left.checked_sub(1)?;
        Some(History {
            sleeps_left,
            ..self
        })
    }
}

thread_local! {
    static HISTORY: Cell<History> = const { Cell::new(History::NEW) };
}

/// A thread's wait for one answer, during which it yields its core instead of sleeping.
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
///                 break patience.was_answered();
///             }
///             if !patience.yield_core() {
///                 break;
///             }
///         }
///     }
///     // If the answer has not come by now, the thread sleeps.
///     other.join().unwrap();
/// });
/// ```
#[derive(Debug)]
pub struct Patience {
    /// As [`clock::micros`] counts.
    ends: u32,
    yields_left: u32,
}

impl Patience {
    /// Begins a wait, while `others` threads wait as well. None after late answers: the
    /// thread should sleep at once.
    pub fn new(others: usize) -> Option<Patience> {
        if let Some(history) = HISTORY.get().slept() {
            HISTORY.set(history);
            return None;
        }
        let others = u32::try_from(others).map_or(OTHERS_MAX, |it| it.min(OTHERS_MAX));
        let patience = AWAKE_MICROS_MAX + AWAKE_FOR_EACH_MICROS_MAX * others;
        Some(Patience {
            ends: clock::micros().wrapping_add(patience),
            yields_left: YIELDS_MAX,
        })
    }

    /// Yields the core to other threads; false when it is time to sleep.
    pub fn yield_core(&mut self) -> bool {
        yield_now();
        if clock::has_come(self.ends, clock::micros()) {
            HISTORY.set(HISTORY.get().after_a_late_answer());
            return false;
        }
        self.yields_left = self.yields_left.saturating_sub(1);
        self.yields_left > 0
    }

    /// Notes that the answer has come in time.
    pub fn was_answered(self) {
        HISTORY.set(HISTORY.get().after_an_early_answer());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_late_answers_double_the_sleeps_up_to_a_limit() {
        let once = History::NEW.after_a_late_answer();
        assert_eq!(once.sleeps_left, SLEEPS_MIN);
        let twice = once.after_a_late_answer();
        assert_eq!(twice.sleeps_left, 2 * SLEEPS_MIN);
        let often = (0..20).fold(twice, |history, _| history.after_a_late_answer());
        assert_eq!(often.sleeps_left, SLEEPS_MAX);
    }

    #[test]
    fn early_answers_bring_the_sleeps_back_to_the_minimum() {
        let late = (0..20).fold(History::NEW, |history, _| history.after_a_late_answer());
        let early = (0..100).fold(late, |history, _| history.after_an_early_answer());
        assert_eq!(early.sleeps_next, SLEEPS_MIN);
    }

    #[test]
    fn after_a_late_answer_a_thread_sleeps_at_once_a_few_times() {
        HISTORY.set(History::NEW.after_a_late_answer());
        let slept = (0..100).filter(|_| Patience::new(0).is_none()).count();
        assert_eq!(slept, SLEEPS_MIN as usize);
    }

    #[test]
    fn a_thread_yields_a_limited_number_of_times() {
        HISTORY.set(History::NEW);
        let mut patience = Patience::new(usize::MAX).unwrap();
        let yields = (0..1000).take_while(|_| patience.yield_core()).count();
        assert!(yields < YIELDS_MAX as usize);
    }
}
