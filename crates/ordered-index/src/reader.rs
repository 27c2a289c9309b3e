//! The readers' side.
use crate::{Cursor, Entry};
use std::marker::PhantomData;
use std::ops::Bound;

/// A handle that pins snapshots: cheap to clone, shared between threads.
#[derive(Clone, Debug)]
pub struct Reader {}

impl Reader {
    /// The newest published state, kept alive until the snapshot is dropped. Never waits.
    pub fn pin(&self) -> Snapshot {
        panic!("not built yet")
    }
}

/// All trees as of one publish. Bound to its thread; holds back reclamation, so drop it soon.
#[derive(Debug)]
pub struct Snapshot {
    not_send: PhantomData<*const ()>,
}

impl Snapshot {
    /// The mark given to the publish that made this state.
    pub fn mark(&self) -> u64 {
        let _ = self.not_send;
        panic!("not built yet")
    }
    /// The entry of `key`.
    pub fn get(&self, _tree: usize, _key: &[u8]) -> Option<Entry> {
        panic!("not built yet")
    }
    /// Keys in the tree.
    pub fn len(&self, _tree: usize) -> u64 {
        panic!("not built yet")
    }
    /// True when the tree has no keys.
    pub fn is_empty(&self, tree: usize) -> bool {
        self.len(tree) == 0
    }
    /// Keys k with start <= k < end (no end: to the last key), in O(log n).
    pub fn count(&self, _tree: usize, _start: &[u8], _end: Option<&[u8]>) -> u64 {
        panic!("not built yet")
    }
    /// Keys smaller than `key`, in O(log n).
    pub fn rank(&self, _tree: usize, _key: &[u8]) -> u64 {
        panic!("not built yet")
    }
    /// The key with exactly `n` smaller keys, in O(log n).
    pub fn nth(&self, _tree: usize, _n: u64) -> Option<(Vec<u8>, Entry)> {
        panic!("not built yet")
    }
    /// A walk over the keys within the bounds.
    pub fn cursor(&self, _tree: usize, _start: Bound<&[u8]>, _end: Bound<&[u8]>) -> Cursor<'_> {
        panic!("not built yet")
    }
}
