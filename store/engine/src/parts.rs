//! The parts of an open engine, which all its handles and background tasks share.
//!
//! ```text
//!   records    log ── accounting, floor        values: where they lie, how they are read
//!              published ── trees, generation
//!              damage, lifecycle
//!   transfers  holds, the snapshot that is being received
//!   directory  disk, path, reserve             checkpoints
//! ```
//!
//! Each part has its own data and invariant; a function takes the parts that it uses.

use crate::counters::Counters;
use crate::directory::Directory;
use crate::read::Records;
use crate::transfer::Transfers;
use crate::{Error, Options};

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) options: Options,
    pub(crate) counters: Counters,
    pub(crate) directory: Directory,
    pub(crate) transfers: Transfers,
    /// The last field, because the directory's lock in it is dropped after everything else.
    pub(crate) records: Records,
}

impl Parts {
    /// Ends imports, marks the log's end as clean and unlocks the directory.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let lifecycle = &self.records.lifecycle;
        lifecycle.close();
        self.transfers.imports.end_all();
        let outcome = self.records.log_view.log.close();
        lifecycle.unlock();
        Ok(outcome?)
    }

    /// Releases segments that no index entry points into.
    pub(crate) fn release(&self, dead: &[u32]) -> Result<(), Error> {
        let (released, outcome) = self.records.log_view.release(dead, &self.records.damage);
        self.counters.released_segments.add(released as u64);
        outcome
    }
}
