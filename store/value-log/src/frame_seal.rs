//! Whether the last frame of the log may become longer: it is written again, with more records
//! and another header (docs/decisions/0041-longer-last-frames.md).
//!
//! ```text
//!   writer    sees 7 ─► writes a frame ───► 7: writes it again, longer
//!   flush                              ┊ seals: 8, and looks where the log ends ─► flushes
//!   writer                             ┊        8, not 7: writes another frame
//! ```
//!
//! A loss of power can tear the block that is being written again. So a frame that a flush has
//! promised, or that a checkpoint counts as applied, stays as it is.

use crate::sync::{Mutex, MutexGuard};

/// The seal of one log.
#[derive(Debug)]
pub(crate) struct FrameSeal {
    /// How often the log was sealed; `None` if no frame becomes longer any more.
    times: Mutex<Option<u64>>,
}

impl FrameSeal {
    pub fn new() -> FrameSeal {
        FrameSeal {
            times: Mutex::new(Some(0)),
        }
    }

    /// To be remembered before a frame is written; `None` if it will not become longer.
    pub fn times(&self) -> Option<u64> {
        *self.times.lock()
    }

    /// Keeps seals away while a frame is written again; `None` if the log was sealed since
    /// `times` was asked for.
    pub fn keep_open(&self, times: u64) -> Option<MutexGuard<'_, Option<u64>>> {
        let now = self.times.lock();
        (*now == Some(times)).then_some(now)
    }

    /// Seals all frames that are published when `look` runs.
    pub fn seal_and<T>(&self, look: impl FnOnce() -> T) -> T {
        let mut times = self.times.lock();
        *times = times.map(|times| times + 1);
        look()
    }

    /// Seals the log for as long as it is open.
    pub fn seal_for_good(&self) {
        *self.times.lock() = None;
    }
}
