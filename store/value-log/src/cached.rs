//! When readers of a log need not ask whether records are in the page cache.
//!
//! ```text
//!   answers   yes yes yes ─── 1,024 in a row ─── yes │ lists of a few records are not asked for,
//!                                                    │ but for one in 512 records
//!             no ─► each list is asked for again
//! ```
//!
//! An answer takes a system call, as much time as looks at some ten short records that are cached. Without an answer, records that
//! are not cached are read one after the other. So only short lists do without, and only where it is rare that one is not cached.

use std::sync::atomic::{AtomicUsize, Ordering};

/// After as many answers in a row that a record is cached, readers expect it of others.
const EXPECTING_ROW: usize = 1024;
/// One of as many records is asked for while readers expect to find all cached.
const EXPECTING_STRIDE: usize = 512;

/// What readers of a log were answered. These are hints: threads may count some answers and records twice, or not at all.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// How many answers in a row were that a record is cached, up to [`EXPECTING_ROW`].
    cached_in_row: AtomicUsize,
    /// Records that no reader has asked for since the last answer.
    unasked: AtomicUsize,
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

    /// Whether a few records can be expected to be cached without asking for one of them.
    pub fn expect_cached(&self, records: usize) -> bool {
        if self.cached_in_row.load(Ordering::Relaxed) < EXPECTING_ROW {
            return false;
        }
        let unasked = self.unasked.load(Ordering::Relaxed) + records;
        let expected = unasked < EXPECTING_STRIDE;
        let unasked = if expected { unasked } else { 0 };
        self.unasked.store(unasked, Ordering::Relaxed);
        expected
    }
}
