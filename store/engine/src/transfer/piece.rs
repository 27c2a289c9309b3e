//! The state that a snapshot contains, and the pieces in which it is sent.

use bytes::Bytes;

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
