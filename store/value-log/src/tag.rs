//! The appender's numbers of a group.

/// The appender's own numbers, kept in the frame header; opaque to the log.
/// 0 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tag {
    /// Term of the entry.
    pub term: u64,
    /// Index of the entry.
    pub index: u64,
    /// First number the group covers.
    pub first: u64,
    /// Last number the group covers.
    pub last: u64,
}
