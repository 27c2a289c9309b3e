//! The two ways to make a segment's file.

/// How the blocks of a segment's file were made ready for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blocks {
    /// Zeros, or former contents, are on the device: a durable write costs one flush.
    Written = 0,
    /// The file system keeps room for them: the device writes each byte once, and the first
    /// durable write to each block costs a journal commit as well.
    Reserved = 1,
}
