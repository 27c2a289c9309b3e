//! Sweeps that open exports hold back.
//!
//! ```text
//!   exports   of compaction 40        of 70            lowest: 40
//!   sweeps        up to 40 go on │ up to 55 wait │ up to 90 wait
//! ```
//!
//! An export sends what compaction to its revision keeps. Sweeps of that one and
//! of earlier ones drop nothing else; a later one waits until the export is
//! dropped. Exports begin on the applying thread, which is also the one that
//! sweeps, so none begins in the middle of a slice. Versions that are held for a hash count
//! as an export of the compaction before. A hold of another thread counts if the compaction that it
//! is for is still the published one when it was taken ([`crate::Engine::hold_all_versions`]).

use environment::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Runs when an export or held versions are dropped.
pub type HoldNotice = Box<dyn Fn() + Send + Sync>;

/// Compacted revisions of the exports that are open, by number.
#[derive(Default)]
pub(crate) struct Holds {
    held: Mutex<Held>,
    notice: OnceLock<HoldNotice>,
}

#[derive(Debug, Default)]
struct Held {
    given: u64,
    open: BTreeMap<u64, i64>,
}

impl fmt::Debug for Holds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Holds").field(&self.held).finish()
    }
}

impl Holds {
    /// Holds back sweeps of compactions beyond `compacted`.
    pub(crate) fn hold(self: &Arc<Self>, compacted: i64) -> Hold {
        let mut held = self.held.lock();
        held.given += 1;
        let number = held.given;
        held.open.insert(number, compacted);
        drop(held);
        Hold {
            holds: Arc::clone(self),
            number,
        }
    }

    /// Sets the notice that runs when a hold is dropped; only the first call has an effect.
    pub(crate) fn set_notice(&self, notice: HoldNotice) {
        let _ = self.notice.set(notice);
    }

    /// Whether the sweep of a compaction must wait.
    pub(crate) fn hold_back(&self, compacted: i64) -> bool {
        self.held.lock().open.values().any(|&kept| kept < compacted)
    }
}

/// Holds sweeps back until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Arc<Holds>,
    number: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.held.lock().open.remove(&self.number);
        if let Some(notice) = self.holds.notice.get() {
            notice();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sweeps_wait_for_the_export_that_is_furthest_back() {
        let holds = Arc::new(Holds::default());
        let (early, late) = (holds.hold(40), holds.hold(70));
        let waiting = |holds: &Holds| [40, 55, 70, 90].map(|compacted| holds.hold_back(compacted));
        assert_eq!(waiting(&holds), [false, true, true, true]);
        drop(early);
        assert_eq!(waiting(&holds), [false, false, false, true]);
        drop(late);
        assert_eq!(waiting(&holds), [false; 4]);
    }
}
