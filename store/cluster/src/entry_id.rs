//! The identity of an entry in Raft's log.

use std::fmt;

/// Term and index of an entry. No two different entries have the same identity. The order is
/// the one by which elections compare the ends of logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// The term in which the entry was proposed.
    pub term: u64,
    pub index: u64,
}

impl EntryId {
    pub(crate) const fn new(term: u64, index: u64) -> EntryId {
        EntryId { term, index }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of term {}", self.index, self.term)
    }
}
