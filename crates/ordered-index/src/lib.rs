//! A prefix-truncated B+-tree in memory: one writer, readers that never wait, counts in O(log n).

mod bulk;
mod cursor;
mod entry;
mod reader;
mod writer;

pub use bulk::{BulkLoad, OutOfOrder};
pub use cursor::Cursor;
pub use entry::Entry;
pub use reader::{Reader, Snapshot};
pub use writer::Writer;

/// An index of `trees` empty trees at mark 0: the one writer, and readers to clone.
pub fn new(trees: usize) -> (Writer, Reader) {
    panic!("not built yet: {trees} trees")
}
