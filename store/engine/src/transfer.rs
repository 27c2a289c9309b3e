//! A whole state on its way from one member to another.
//!
//! ```text
//!   Applier::export ─► Export ─► piece 0, 1, 2 ... ─► Import ─► Applier::install
//!                      walks the index in key order    writes sorted segments and
//!                      slice by slice, reads records   an unnamed checkpoint
//! ```
//!
//! *What is sent* is one moment: everything applied up to an index of the log,
//! with all versions that compactions had kept by then, and the state blob.
//! The sender goes on working. It holds no memory of the index back: versions
//! are never changed, so a later look finds all that were there at that moment,
//! as long as none is swept away: sweeps of later compactions wait
//! (`holds.rs`). Reclaim does not: a record that has moved is looked up again.
//!
//! *What is received* is stored apart: in sorted segments that nothing points into,
//! and a file that is no checkpoint before it is renamed to be one. That rename
//! is the one step at which the old state ends and the new one begins
//! (`install.rs`); before it a crash leaves the old one, and garbage.

mod export;
pub(crate) mod format;
pub(crate) mod holds;
mod import;
pub(crate) mod install;
mod intake;
mod order;
mod piece;
#[cfg(test)]
mod tests;
mod walk;
mod written;

use std::sync::Arc;

pub use export::Export;
pub use holds::HoldNotice;
pub use import::{Import, ImportNotice, ImportProgress};
pub use install::Installed;
pub use piece::{Piece, SnapshotInfo};
pub use written::PieceWriter;

/// Snapshots on their way, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// Exports and held versions that sweeps must wait for.
    pub(crate) holds: Arc<holds::Holds>,
    /// The snapshot that is being received.
    pub(crate) imports: import::Imports,
}
