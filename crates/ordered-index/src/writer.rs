//! The writer's side.
use crate::{BulkLoad, Cursor, Entry, OutOfOrder};
use std::ops::Bound;

/// The only one who changes the trees; readers see nothing before `publish`.
#[derive(Debug)]
pub struct Writer {}

impl Writer {
    /// Sets the entry of `key`; returns the one it replaced.
    pub fn insert(&mut self, _tree: usize, _key: &[u8], _entry: Entry) -> Option<Entry> {
        panic!("not built yet")
    }
    /// Removes `key`; returns its entry.
    pub fn remove(&mut self, _tree: usize, _key: &[u8]) -> Option<Entry> {
        panic!("not built yet")
    }
    /// The entry of `key`, unpublished changes included.
    pub fn get(&self, _tree: usize, _key: &[u8]) -> Option<Entry> {
        panic!("not built yet")
    }
    /// Sets `new` only where `old` still stands; false (and no change) otherwise.
    pub fn replace_value(&mut self, _tree: usize, _key: &[u8], _old: Entry, _new: Entry) -> bool {
        panic!("not built yet")
    }
    /// Keys in the tree, unpublished changes included.
    pub fn len(&self, _tree: usize) -> u64 {
        panic!("not built yet")
    }
    /// True when the tree has no keys.
    pub fn is_empty(&self, tree: usize) -> bool {
        self.len(tree) == 0
    }
    /// A walk over the keys within the bounds, unpublished changes included.
    pub fn cursor(&self, _tree: usize, _start: Bound<&[u8]>, _end: Bound<&[u8]>) -> Cursor<'_> {
        panic!("not built yet")
    }
    /// Replaces a whole tree by ascending keys; returns how many.
    pub fn bulk_load<K: AsRef<[u8]>>(
        &mut self,
        _tree: usize,
        _sorted: impl IntoIterator<Item = (K, Entry)>,
    ) -> Result<u64, OutOfOrder> {
        panic!("not built yet")
    }
    /// Replaces a whole tree by one that was built aside.
    pub fn install(&mut self, _tree: usize, _load: BulkLoad) {
        panic!("not built yet")
    }
    /// Makes all changes since the last publish visible at once, in every tree, under `mark`.
    pub fn publish(&mut self, _mark: u64) {
        panic!("not built yet")
    }
    /// Heap bytes of all nodes the working state consists of.
    pub fn memory_bytes(&self) -> u64 {
        panic!("not built yet")
    }
    /// Heap bytes of replaced nodes that a reader may still be looking at.
    pub fn garbage_bytes(&self) -> u64 {
        panic!("not built yet")
    }
}
