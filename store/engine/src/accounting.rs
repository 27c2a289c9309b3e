//! Accounts of the log that the writer keeps besides the index.
//!
//! The applying thread writes them once per batch; status, history and maintenance
//! read them, under locks that are never held across a wait. Point reads and ranges
//! do not use them; counts at a past revision do.

use crate::HardState;
use crate::creations::Creations;
use crate::live::Live;
use crate::overruled::Overruled;
use crate::revision_marks::RevisionMarks;
use environment::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Accounting {
    pub(crate) live: Mutex<Live>,
    pub(crate) marks: Mutex<RevisionMarks>,
    pub(crate) overruled: Mutex<Overruled>,
    pub(crate) creations: Mutex<Creations>,
    /// The newest hard state that was appended.
    pub(crate) hard_state: Mutex<HardState>,
}

impl Accounting {
    pub(crate) fn new(
        live: Live,
        marks: RevisionMarks,
        overruled: Overruled,
        hard_state: HardState,
    ) -> Accounting {
        Accounting {
            live: Mutex::new(live),
            marks: Mutex::new(marks),
            overruled: Mutex::new(overruled),
            creations: Mutex::default(),
            hard_state: Mutex::new(hard_state),
        }
    }

    /// Replaces the accounts when a snapshot is installed. Overruled frames stay listed, for
    /// walks that are still on the old log.
    pub(crate) fn replace_state(&self, live: Live, hard_state: HardState) {
        *self.live.lock() = live;
        *self.marks.lock() = RevisionMarks::default();
        self.hard_state.lock().absorb(hard_state);
    }
}
