//! Building a tree from sorted keys.
use crate::Entry;

/// A key that was not greater than the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// How many keys had been accepted before it.
    pub accepted: u64,
}

impl std::fmt::Display for OutOfOrder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "key number {} is not greater than the key before it",
            self.accepted
        )
    }
}

impl std::error::Error for OutOfOrder {}

/// A tree under construction from ascending keys; needs no writer, so several can be built in parallel.
#[derive(Debug, Default)]
pub struct BulkLoad {}

impl BulkLoad {
    /// An empty tree.
    pub fn new() -> BulkLoad {
        panic!("not built yet")
    }
    /// Adds a key greater than all before.
    pub fn push(&mut self, _key: &[u8], _entry: Entry) -> Result<(), OutOfOrder> {
        panic!("not built yet")
    }
    /// Keys accepted so far.
    pub fn len(&self) -> u64 {
        panic!("not built yet")
    }
    /// True before the first key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
