//! When readers of a log need not ask whether records are in the page cache.
//!
//! ```text
//!   answers   yes yes yes ─── 1,024 in a row ───► short lists are not asked for, but one in 512 records
//!             no ───────────────────────────────► each reader asks for its first place, and one of 64, again
//! ```
//!
//! An answer takes a system call, as much time as looks at some ten short records that are cached. Without an answer, records that
//! are not cached are read one after the other. So only short lists do without, and only where few records are not cached.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of answers in a row that a record is cached, after which readers expect it of others.
const EXPECTING_ROW: usize = 1024;
/// Number of records of which one is asked for while readers expect to find all cached.
const EXPECTING_STRIDE: usize = 512;

/// The answers that readers of a log got. These are hints: threads may count some answers and records twice, or not at all. Readers
/// write here for each list, so it has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Answers {
    /// How many answers in a row were that a record is cached, up to [`EXPECTING_ROW`].
    cached_in_row: AtomicUsize,
    /// Records of short lists since it was the turn of one.
    unasked: AtomicUsize,
}

/// The expectation for a short list, from the answers about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Nothing.
    Unknown,
    /// Its records are cached.
    Cached,
    /// It is its turn to be asked for.
    Turn,
}

impl Answers {
    /// Takes note of an answer.
    pub fn note(&self, is_cached: bool) {
        let before = self.cached_in_row.load(Ordering::Relaxed);
        let in_row = match is_cached {
            true => (before + 1).min(EXPECTING_ROW),
            false => 0,
        };
        if in_row != before {
            self.cached_in_row.store(in_row, Ordering::Relaxed);
        }
    }

    /// Whether the last answer was that a record is cached.
    pub fn seem_cached(&self) -> bool {
        self.cached_in_row.load(Ordering::Relaxed) > 0
    }

    /// The expectation for a short list of as many records; counts them.
    pub fn expected(&self, records: usize) -> Expected {
        if self.cached_in_row.load(Ordering::Relaxed) < EXPECTING_ROW {
            return Expected::Unknown;
        }
        let unasked = self.unasked.load(Ordering::Relaxed) + records;
        let is_turn = unasked >= EXPECTING_STRIDE;
        let unasked = if is_turn { 0 } else { unasked };
        self.unasked.store(unasked, Ordering::Relaxed);
        match is_turn {
            true => Expected::Turn,
            false => Expected::Cached,
        }
    }
}
