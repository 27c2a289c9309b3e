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
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Accounting {
    live: Mutex<Live>,
    marks: Mutex<RevisionMarks>,
    overruled: Mutex<Overruled>,
    creations: Mutex<Creations>,
    /// The newest hard state that was appended.
    hard_state: Mutex<HardState>,
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
        *self.live() = live;
        *self.marks() = RevisionMarks::default();
        self.hard_state().absorb(hard_state);
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn marks(&self) -> MutexGuard<'_, RevisionMarks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn overruled(&self) -> MutexGuard<'_, Overruled> {
        self.overruled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn creations(&self) -> MutexGuard<'_, Creations> {
        self.creations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hard_state(&self) -> MutexGuard<'_, HardState> {
        self.hard_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
