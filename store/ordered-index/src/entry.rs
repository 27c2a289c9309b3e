//! The entry of a key.

/// The 16 bytes stored with a key; both words are opaque to the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IndexEntry {
    /// Where the value lies (the engine: log position and size class).
    pub value: u64,
    /// When it was written (the engine: main revision).
    pub stamp: u64,
}
