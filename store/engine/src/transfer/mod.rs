//! A whole state on its way from one member to another.
//!
//! ```text
//!   Applier::export ─► Export ─► piece 0, 1, 2 ... ─► Import ─► Applier::install
//!                      walks the index in key order    writes sorted segments and
//!                      slice by slice, reads records   a checkpoint's entries, aside
//! ```
//!
//! *What is sent* is one moment: everything applied up to an index of the log,
//! with all versions that compactions had kept by then, and the state blob.
//! The sender goes on working. It holds no memory of the index back: versions
//! are never changed, so a later look finds all that were there at that moment,
//! as long as none is swept away: sweeps of later compactions wait
//! (`holds.rs`). Reclaim does not: a record that has moved is looked up again.
//!
//! *What is received* lies aside: in sorted segments that nothing points into,
//! and a file that is no checkpoint before it is renamed to be one. That rename
//! is the one step at which the old state ends and the new one begins
//! (`install.rs`); before it a crash leaves the old one, and garbage.

use bytes::Bytes;

mod export;
pub(crate) mod format;
pub(crate) mod holds;
pub(crate) mod import;
mod install;
mod intake;
mod order;
#[cfg(test)]
mod tests;
mod walk;

pub use export::Export;
pub use holds::LetGo;
pub use import::{Import, ImportNotice, ImportProgress};
pub use install::Installed;

/// The moment that a snapshot is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The same in all pieces of one export.
    pub id: u64,
    /// Index of the last batch applied.
    pub index: u64,
    /// Term of that batch.
    pub term: u64,
    /// Last main revision.
    pub revision: i64,
    /// Last compacted main revision; -1: never.
    pub compacted: i64,
}

/// A part of a snapshot, to be sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number, from 0.
    pub number: u64,
    /// Whether it is the last one.
    pub last: bool,
    /// Checksummed, and chained to the piece before.
    pub bytes: Bytes,
}
