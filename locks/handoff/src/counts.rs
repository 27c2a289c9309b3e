//! Counts of sleeps, wake-ups and moves of waiting threads.
//!
//! They are counted where a thread sleeps or is woken, which costs far more than the
//! counting, and only after a call of [`count_from_now`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);
static PARKS: AtomicU64 = AtomicU64::new(0);
static WAKES: AtomicU64 = AtomicU64::new(0);
static TURNS: AtomicU64 = AtomicU64::new(0);
static HAND_OFFS: AtomicU64 = AtomicU64::new(0);
static MOVES: AtomicU64 = AtomicU64::new(0);

/// Sums over all locks and conditions of the process since [`count_from_now`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times a thread went to sleep, for a lock or a condition.
    pub parks: u64,
    /// Waiters woken as the newest.
    pub wakes: u64,
    /// Waiters woken because their turn had come.
    pub turns: u64,
    /// Waiters that were handed a lock by `unlock_fair`.
    pub hand_offs: u64,
    /// Notified waiters that were moved to their lock's list, still asleep.
    pub moves: u64,
}

/// Begins to count.
pub fn count_from_now() {
    WANTED.store(true, Ordering::Relaxed);
}

/// The present counts; all are 0 before [`count_from_now`].
pub fn counts() -> Counts {
    Counts {
        parks: PARKS.load(Ordering::Relaxed),
        wakes: WAKES.load(Ordering::Relaxed),
        turns: TURNS.load(Ordering::Relaxed),
        hand_offs: HAND_OFFS.load(Ordering::Relaxed),
        moves: MOVES.load(Ordering::Relaxed),
    }
}

/// Counts a thread that is about to sleep.
pub(crate) fn parks() {
    add(&PARKS);
}

/// Counts a waiter that is woken as the newest.
pub(crate) fn wakes() {
    add(&WAKES);
}

/// Counts a waiter that is woken because its turn has come.
pub(crate) fn turns() {
    add(&TURNS);
}

/// Counts a waiter that is handed the lock.
pub(crate) fn hand_offs() {
    add(&HAND_OFFS);
}

/// Counts a waiter that is moved from a condition to its lock.
pub(crate) fn moves() {
    add(&MOVES);
}

fn add(count: &AtomicU64) {
    if WANTED.load(Ordering::Relaxed) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}
