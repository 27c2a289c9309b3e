//! What the writer keeps about the log besides the index.
//!
//! Both are written by the applying thread, once per batch, and read by
//! status, history and maintenance: short looks under a lock that is never
//! held across a wait. Point reads and ranges never come here.

use crate::live::Live;
use crate::marks::Marks;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Books {
    live: Mutex<Live>,
    marks: Mutex<Marks>,
}

impl Books {
    pub(crate) fn new(live: Live, marks: Marks) -> Books {
        Books {
            live: Mutex::new(live),
            marks: Mutex::new(marks),
        }
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
