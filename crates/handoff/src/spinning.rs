//! Who may spin.
//!
//! Spinning helps only while the holder runs at the same time, so the process
//! never has more spinners than cores besides one for a holder; with one core
//! nobody spins. Whoever gets no place parks at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock;
use crate::cores;
use crate::sync::spin_loop;

/// Time between two ways given.
const BETWEEN_MICROS: u32 = 100;

/// Whoever gets its core back sooner has given it to nobody, or to somebody who only went to
/// sleep.
const TAKEN_MICROS: u32 = 50;

/// Looks at the lock of the waiter that will have it next.
const LOOKS_OF_HEIR: u32 = 100;
/// Looks of whoever waits for a condition variable: what a group's leader does meanwhile
/// takes some microseconds.
const LOOKS_OF_WAITER: u32 = 400;
/// Looks of everybody else.
const LOOKS_OF_NEWCOMER: u32 = 30;

/// Looks at a notification that were worth it lately, less those that were not.
static LUCK: Places = Places(AtomicU32::new(LUCK_MAX));
/// Looks forgone since the luck ran out.
static FORGONE: Places = Places(AtomicU32::new(0));
const LUCK_MAX: u32 = 16;
/// Without luck, one in so many looks all the same, because times change.
const TRY_EVERY: u32 = 16;

static SPINNERS: Places = Places(AtomicU32::new(0));

/// Alone on its cache line: all locks of the process use it.
#[repr(align(128))]
struct Places(AtomicU32);

/// A place among the spinners, given back when dropped.
pub(crate) struct Spin {
    looks_left: u32,
}

impl Spin {
    /// None while every core has its spinner.
    pub(crate) fn begin(is_heir: bool) -> Option<Spin> {
        Spin::with(if is_heir {
            LOOKS_OF_HEIR
        } else {
            LOOKS_OF_NEWCOMER
        })
    }

    /// A place for looking at a condition variable's notification. None while such looks
    /// have mostly been in vain, as when other processes have the cores.
    pub(crate) fn for_a_notification() -> Option<Spin> {
        let is_lucky = LUCK.0.load(Ordering::Relaxed) > 0
            || FORGONE
                .0
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(TRY_EVERY);
        is_lucky.then(|| Spin::with(LOOKS_OF_WAITER)).flatten()
    }

    /// Remembers whether looking for a notification was worth it.
    pub(crate) fn was_worth_it(worth: bool) {
        let luck = LUCK.0.load(Ordering::Relaxed);
        let now = if worth {
            (luck + 1).min(LUCK_MAX)
        } else {
            luck.saturating_sub(2)
        };
        if now != luck {
            // Another thread's step may be lost: it is a guess anyway.
            LUCK.0.store(now, Ordering::Relaxed);
        }
    }

    fn with(looks_left: u32) -> Option<Spin> {
        let before = SPINNERS.0.fetch_add(1, Ordering::Relaxed);
        if before + 1 >= cores::number() {
            SPINNERS.0.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Spin { looks_left })
    }

    /// The spinner has become the heir.
    pub(crate) fn extend(&mut self) {
        self.looks_left = LOOKS_OF_HEIR;
    }

    /// Waits a moment; false when the place must be given back.
    pub(crate) fn again(&mut self) -> bool {
        spin_loop();
        self.looks_left = self.looks_left.saturating_sub(1);
        self.looks_left > 0
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        SPINNERS.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets others have this core, if that was not just done: the heir may be waiting for
/// it, and a lock whose turns are overdue for long would be left with a system call
/// each time.
pub(crate) fn give_way() {
    thread_local! {
        static LAST: Cell<u32> = const { Cell::new(0) };
    }
    let now = clock::micros();
    if now.wrapping_sub(LAST.get()) >= BETWEEN_MICROS {
        LAST.set(now);
        std::thread::yield_now();
    }
}

/// Gives way once; whether anybody had use for this core.
pub(crate) fn somebody_takes_this_core() -> bool {
    let before = clock::micros();
    std::thread::yield_now();
    clock::micros().wrapping_sub(before) >= TAKEN_MICROS
}

/// In a forked child: spinners of the parent do not exist here.
pub(crate) fn forget_spinners() {
    SPINNERS.0.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_end_with_the_cores_and_come_back() {
        let most = cores::number() as usize;
        let taken: Vec<Spin> = std::iter::from_fn(|| Spin::begin(false))
            .take(most)
            .collect();
        assert!(taken.len() < most, "one core is left for the holder");
        assert!(Spin::begin(true).is_none());
        drop(taken);
        assert_eq!(Spin::begin(true).is_some(), most > 1);
    }
}
