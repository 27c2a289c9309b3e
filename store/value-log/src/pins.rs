//! Pins keep the bytes of a released segment from becoming another segment's while they are looked at.
//!
//! ```text
//!   a look     pins ──► bytes of the segment's file, without a copy ──► unpins
//!   a release  closes: nothing can be pinned any more
//!              ├─ nothing is: the file becomes a spare, and is overwritten
//!              └─ something is: the file is removed, and exists until its last handle is closed
//! ```

use crate::sync::{AtomicU64, Ordering};

/// Set when nothing can be pinned any more.
const CLOSED: u64 = 1 << 63;

/// The pins of one segment.
#[derive(Debug)]
pub(crate) struct Pins(AtomicU64);

impl Pins {
    pub fn new() -> Pins {
        Pins(AtomicU64::new(0))
    }

    /// Adds a pin; false if there can be none any more.
    pub fn pin(&self) -> bool {
        // The bytes are read behind this.
        let before = self.0.fetch_add(1, Ordering::Acquire);
        let is_open = before & CLOSED == 0;
        if !is_open {
            self.unpin();
        }
        is_open
    }

    /// Takes a pin away.
    pub fn unpin(&self) {
        // The bytes were read in front of this.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Refuses pins from now on. Returns whether there is none: then the file may be overwritten.
    pub fn close(&self) -> bool {
        self.0.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED == 0
    }

    /// Allows pins again: the segment was not released.
    pub fn reopen(&self) {
        self.0.fetch_and(!CLOSED, Ordering::Release);
    }
}
