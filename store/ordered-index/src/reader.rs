//! The readers' side: pin a state, look, drop the pin.
//!
//! A pin is two stores, a fence and a load. It takes no lock, does not loop
//! and never waits for the writer, wherever the writer has been descheduled;
//! every 128th pin of a thread helps to free nodes that no reader can reach.
//! The price is paid in memory: nodes that are replaced while a snapshot lives stay
//! on the heap (`Writer::garbage_bytes`). A long walk should therefore drop its
//! snapshot every few thousand keys, pin again and continue after the last key.

use crate::cursor::Cursor;
use crate::entry::IndexEntry;
use crate::link::{Current, Pinned};
use crate::tree::Tree;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// A handle that pins snapshots: cheap to clone, shared between threads.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) current: Arc<Current>,
}

impl Reader {
    /// The newest published state, kept until the snapshot is dropped.
    #[inline]
    pub fn pin(&self) -> Snapshot {
        Snapshot {
            state: self.current.pin(),
        }
    }

    /// Heap bytes of replaced nodes that are not freed yet: the same as
    /// [`Writer::garbage_bytes`](crate::Writer::garbage_bytes).
    pub fn garbage_bytes(&self) -> u64 {
        self.current.garbage_bytes()
    }
}

/// All trees as one publish left them. Bound to its thread; may outlive writer and readers.
///
/// While a thread holds a snapshot, a newer snapshot of the same thread does not let
/// anything be freed that the older one may see.
///
/// ```compile_fail,E0277
/// let (_writer, reader) = ordered_index::new(1);
/// let snapshot = reader.pin();
/// std::thread::scope(|scope| scope.spawn(move || snapshot.mark()).join());
/// ```
pub struct Snapshot {
    state: Pinned,
}

impl Snapshot {
    /// The mark given to the publish that made this state.
    pub fn mark(&self) -> u64 {
        self.state.mark
    }

    fn tree(&self, tree: usize) -> &Tree {
        &self.state.trees[tree]
    }

    /// The entry of `key`.
    #[inline]
    pub fn get(&self, tree: usize, key: &[u8]) -> Option<IndexEntry> {
        self.tree(tree).get(key)
    }

    /// Keys in the tree.
    pub fn len(&self, tree: usize) -> u64 {
        self.tree(tree).len
    }

    /// True when the tree has no keys.
    pub fn is_empty(&self, tree: usize) -> bool {
        self.len(tree) == 0
    }

    /// Keys k with start <= k < end (no end: to the last key), in O(log n).
    pub fn count(&self, tree: usize, start: &[u8], end: Option<&[u8]>) -> u64 {
        self.tree(tree).count(start, end)
    }

    /// Keys smaller than `key`, in O(log n).
    pub fn rank(&self, tree: usize, key: &[u8]) -> u64 {
        self.tree(tree).rank(key).before
    }

    /// The key with exactly `n` smaller keys, in O(log n).
    pub fn nth(&self, tree: usize, n: u64) -> Option<(Vec<u8>, IndexEntry)> {
        self.tree(tree).nth(n)
    }

    /// A walk over the keys within the bounds; a start beyond the end is an empty walk.
    pub fn cursor(&self, tree: usize, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Cursor<'_> {
        Cursor::new(self.tree(tree), start, end)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Snapshot(mark {}, {} trees)",
            self.state.mark,
            self.state.trees.len()
        )
    }
}
