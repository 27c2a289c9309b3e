//! A prefix-truncated B+-tree in memory: one writer, readers that never wait, counts in O(log n).
//!
//! ```
//! use ordered_index::IndexEntry;
//! use std::ops::Bound;
//!
//! let (mut writer, reader) = ordered_index::new(1);
//! writer.insert(0, b"a", IndexEntry { value: 1, stamp: 10 });
//! assert_eq!(reader.pin().len(0), 0, "not published yet");
//! writer.publish(10);
//!
//! let snapshot = reader.pin();
//! assert_eq!(snapshot.mark(), 10);
//! let mut cursor = snapshot.cursor(0, Bound::Unbounded, Bound::Unbounded);
//! while let Some((key, entry)) = cursor.next() {
//!     println!("{key:?} -> {entry:?}");
//! }
//! ```
//!
//! ```text
//!   Writer                                     Reader (any number, any thread)
//!     insert / remove / replace_value            pin() -> Snapshot
//!       change the working trees: a node's         get, count, rank, nth,
//!       first change in a batch copies it          cursor from both ends
//!     publish(mark) ---- one pointer store ----> all trees and the mark, together
//! ```
//!
//! An index holds several trees (the engine: current keys and history). Their
//! roots are published by one store, so a snapshot never sees one tree ahead of
//! another. Nodes that a publish replaces are used again, or freed, once no snapshot
//! can reach them.
//!
//! Trade-offs: a batch of one change copies a path (about three nodes, 8 KB);
//! a snapshot that is held for long keeps replaced nodes on the heap; there is
//! one writer, and that is enough because the log orders all writes anyway.
//!
//! Where to read on: `keys` and `rows` (how keys and entries are packed), `link` (ownership of nodes, and when
//! they are freed), `heap` and `node_vec` (where they are), `spare` (memory that is used again),
//! `insert` and `remove`, `sorted` (many changes at once), `cursor`. All `unsafe` is in `link`, `heap` and
//! `node_vec`.

#![warn(missing_docs)]

mod bulk;
mod capacity;
mod cursor;
mod entries;
mod entry;
mod fanout;
mod heap;
mod insert;
mod keys;
mod link;
mod node;
mod node_vec;
mod packing;
mod reader;
mod remove;
mod returned;
mod rows;
mod sorted;
mod spare;
#[cfg(test)]
mod tests;
mod tree;
mod writer;

pub use bulk::{BulkLoad, OutOfOrder};
pub use cursor::Cursor;
pub use entry::IndexEntry;
pub use fanout::Fanout;
pub use heap::{HeapUse, heap_use};
pub use reader::{Reader, Snapshot};
pub use sorted::Change;
pub use writer::Writer;

/// An index of `trees` empty trees at mark 0: the one writer, and readers to clone.
pub fn new(trees: usize) -> (Writer, Reader) {
    with_fanout(trees, Fanout::default())
}

/// [`new`] with nodes of another width.
pub fn with_fanout(trees: usize, fanout: Fanout) -> (Writer, Reader) {
    let (writer, current) = Writer::new(trees, fanout);
    (writer, Reader { current })
}
