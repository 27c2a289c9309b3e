//! How often readers of many records ask whether one is in the page cache.
//!
//! ```text
//!   some are not     ?───64───?───64───?    each reader asks for its first record, then for one of 64
//!   all were, 64 times in a row
//!                    ?──────512──────?      all readers of a log together
//! ```
//!
//! An answer takes a system call, more time than looks at ten short records that are cached.

use std::sync::atomic::{AtomicUsize, Ordering};

/// One of as many records of a reader is asked for, unless the last answer was that one is not cached.
const STRIDE: usize = 64;
/// After as many answers in a row that a record is cached, readers expect it of others. If one of ten records were not
/// cached, one of a thousand rows would be as long.
const EXPECTING_ROW: usize = 64;
/// One of as many records of all readers is asked for while they expect to find all cached.
const EXPECTING_STRIDE: usize = 512;

/// The answers that readers of a log got. They are hints: threads may count some records twice, or not at all.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// How many answers in a row were that a record is cached, up to [`EXPECTING_ROW`].
    cached_in_row: AtomicUsize,
    /// Records that were passed since one was asked for, while readers expect to find all cached.
    passed: AtomicUsize,
}

impl Answers {
    /// Goes on with the records of a reader.
    pub fn begin(&self, unasked: &mut Unasked) {
        let expected = self.cached_in_row.load(Ordering::Relaxed) >= EXPECTING_ROW;
        unasked.stride = if expected { EXPECTING_STRIDE } else { STRIDE };
        if expected {
            unasked.passed = self.passed.load(Ordering::Relaxed);
        }
    }

    /// Takes note of an answer.
    pub fn add(&self, is_cached: bool) {
        let in_row = match is_cached {
            true => self.cached_in_row.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        let in_row = in_row.min(EXPECTING_ROW);
        self.cached_in_row.store(in_row, Ordering::Relaxed);
    }

    /// The reader has passed its records, for now.
    pub fn end(&self, unasked: &Unasked) {
        self.passed.store(unasked.passed, Ordering::Relaxed);
    }
}

/// The records that a reader has passed since one was asked for.
#[derive(Debug)]
pub(crate) struct Unasked {
    passed: usize,
    stride: usize,
}

impl Unasked {
    /// The next one is asked for.
    pub fn new() -> Unasked {
        Unasked {
            passed: STRIDE,
            stride: STRIDE,
        }
    }

    /// Passes a record, and returns whether it is to be asked for: `always`, or because it is its turn.
    pub fn pass(&mut self, always: bool) -> bool {
        self.passed += 1;
        let asks = always || self.passed > self.stride;
        if asks {
            self.passed = 1;
        }
        asks
    }
}
