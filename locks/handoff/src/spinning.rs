//! The limit on spinning threads.
//!
//! Spinning helps only while the holder runs at the same time, so a process never has more
//! spinners than its cores less one, which is left for a holder; with one core no thread
//! spins. A thread that may not spin parks at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock;
use crate::cores;
use crate::sync::spin_loop;

/// Microseconds between two yields of a thread by [`yield_now_and_then`].
const BETWEEN_MICROS: u32 = 100;

/// A yield that is shorter has run no other thread, or one that only went to sleep.
const TAKEN_MICROS: u32 = 50;

/// Polls of a lock by its heir, before it parks.
const LOOKS_OF_HEIR: u32 = 100;
/// Polls by a waiter of a condition variable, before it sleeps: the work of a group's leader
/// takes some microseconds.
const LOOKS_OF_WAITER: u32 = 400;
/// Polls of a lock by a newcomer, before it parks.
const LOOKS_OF_NEWCOMER: u32 = 30;

/// How useful polling for a notification has been lately: 0 if it is mostly useless, and
/// [`SCORE_MAX`] at most.
static SCORE: Counter = Counter(AtomicU32::new(SCORE_MAX));
/// Waits in which polling was considered while the score was 0.
static FORGONE: Counter = Counter(AtomicU32::new(0));
const SCORE_MAX: u32 = 16;
/// With a score of 0 a thread still polls in every 16th wait, because conditions change.
const TRY_EVERY: u32 = 16;

static SPINNERS: Counter = Counter(AtomicU32::new(0));

/// A counter alone on its cache line: all locks of the process use it.
#[repr(align(128))]
struct Counter(AtomicU32);

/// The right to spin, which counts against the limit until it is dropped.
pub(crate) struct Spin {
    looks_left: u32,
}

impl Spin {
    /// The right to spin for a lock; none while the process has as many spinners as it may.
    pub(crate) fn begin(is_heir: bool) -> Option<Spin> {
        Spin::with(if is_heir {
            LOOKS_OF_HEIR
        } else {
            LOOKS_OF_NEWCOMER
        })
    }

    /// The right to poll for a notification. Also none while such polls are mostly useless, for
    /// instance because other processes have the cores.
    pub(crate) fn for_a_notification() -> Option<Spin> {
        let is_useful = SCORE.0.load(Ordering::Relaxed) > 0
            || FORGONE
                .0
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(TRY_EVERY);
        is_useful.then(|| Spin::with(LOOKS_OF_WAITER)).flatten()
    }

    /// Notes whether polling for a notification was worth it.
    pub(crate) fn was_worth_it(worth: bool) {
        let score = SCORE.0.load(Ordering::Relaxed);
        let now = if worth {
            (score + 1).min(SCORE_MAX)
        } else {
            score.saturating_sub(2)
        };
        if now != score {
            // The change of another thread may be lost: the score is an estimate.
            SCORE.0.store(now, Ordering::Relaxed);
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

    /// Lets a spinner that has become the heir poll for longer.
    pub(crate) fn extend(&mut self) {
        self.looks_left = LOOKS_OF_HEIR;
    }

    /// Waits a moment between two polls; false when the thread must stop spinning.
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

/// Yields this core, for which the heir may be waiting, unless the thread has yielded just
/// before: otherwise each unlock while a turn is overdue would cost a system call.
pub(crate) fn yield_now_and_then() {
    thread_local! {
        static LAST: Cell<u32> = const { Cell::new(0) };
    }
    let now = clock::micros();
    if now.wrapping_sub(LAST.get()) >= BETWEEN_MICROS {
        LAST.set(now);
        std::thread::yield_now();
    }
}

/// Yields this core once; whether another thread has used it.
pub(crate) fn yielded_to_another() -> bool {
    let before = clock::micros();
    std::thread::yield_now();
    clock::micros().wrapping_sub(before) >= TAKEN_MICROS
}

/// Resets the number of spinners, in a forked child: those of the parent do not exist here.
pub(crate) fn forget_spinners() {
    SPINNERS.0.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinners_are_fewer_than_cores_and_make_room_when_dropped() {
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
