//! The writer's side: change trees, then publish.

use crate::bulk::{BulkLoad, OutOfOrder};
use crate::cursor::Cursor;
use crate::entry::IndexEntry;
use crate::fanout::Fanout;
use crate::link::{Current, Unpublished};
use crate::returned::SpareStates;
use crate::sorted::{self, Change};
use crate::tree::Tree;
use std::fmt;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

/// The only handle that changes the trees; readers see no change before `publish`.
///
/// The first change of a node in a batch copies it, later ones do not: the more
/// changes a batch holds, the less each one costs. Dropping a writer forgets
/// its unpublished changes; readers keep the last published state.
pub struct Writer {
    current: Arc<Current>,
    /// The working state: what the next publish will show.
    pub(crate) trees: Vec<Tree>,
    pub(crate) batch: Unpublished,
    spare_states: SpareStates,
}

impl Writer {
    pub(crate) fn new(trees: usize, fanout: Fanout) -> (Writer, Arc<Current>) {
        assert!(
            fanout.leaf >= 4 && fanout.inner >= 4,
            "{fanout:?} is too narrow to split"
        );
        let mut batch = Unpublished::new(fanout);
        let trees: Vec<Tree> = (0..trees).map(|_| Tree::empty(&mut batch)).collect();
        let current = Arc::new(Current::new(&trees, &mut batch));
        (
            Writer {
                current: Arc::clone(&current),
                trees,
                batch,
                spare_states: SpareStates::default(),
            },
            current,
        )
    }

    /// Sets the entry of `key`; returns the one it replaced.
    pub fn insert(&mut self, tree: usize, key: &[u8], entry: IndexEntry) -> Option<IndexEntry> {
        self.trees[tree].insert(key, entry, &mut self.batch)
    }

    /// Removes `key`; returns its entry.
    pub fn remove(&mut self, tree: usize, key: &[u8]) -> Option<IndexEntry> {
        self.trees[tree].remove(key, &mut self.batch)
    }

    /// Makes many changes at once, in strictly ascending order of their keys; returns the
    /// entry that each of them found. Cheaper than one by one where the keys lie close.
    ///
    /// # Panics
    ///
    /// When the keys do not ascend.
    pub fn change_sorted(
        &mut self,
        tree: usize,
        changes: &[Change<'_>],
    ) -> Vec<Option<IndexEntry>> {
        let mut before = Vec::with_capacity(changes.len());
        sorted::change(&mut self.trees[tree], changes, &mut before, &mut self.batch);
        before
    }

    /// The entry of `key`, unpublished changes included.
    pub fn get(&self, tree: usize, key: &[u8]) -> Option<IndexEntry> {
        self.trees[tree].get(key)
    }

    /// Sets the entry `new` only if the key still has `old`; otherwise returns false and changes
    /// nothing.
    pub fn replace_value(
        &mut self,
        tree: usize,
        key: &[u8],
        old: IndexEntry,
        new: IndexEntry,
    ) -> bool {
        let stands = self.get(tree, key) == Some(old);
        if stands {
            self.insert(tree, key, new);
        }
        stands
    }

    /// Keys in the tree, unpublished changes included.
    pub fn len(&self, tree: usize) -> u64 {
        self.trees[tree].len
    }

    /// True when the tree has no keys.
    pub fn is_empty(&self, tree: usize) -> bool {
        self.len(tree) == 0
    }

    /// Keys k with start <= k < end, unpublished changes included, in O(log n).
    pub fn count(&self, tree: usize, start: &[u8], end: Option<&[u8]>) -> u64 {
        self.trees[tree].count(start, end)
    }

    /// A walk over the keys within the bounds, unpublished changes included.
    pub fn cursor(&self, tree: usize, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Cursor<'_> {
        Cursor::new(&self.trees[tree], start, end)
    }

    /// Replaces a whole tree by strictly ascending keys; returns how many. An
    /// error leaves the tree as it was.
    pub fn bulk_load<K: AsRef<[u8]>>(
        &mut self,
        tree: usize,
        sorted: impl IntoIterator<Item = (K, IndexEntry)>,
    ) -> Result<u64, OutOfOrder> {
        let mut load = BulkLoad::with_fanout(self.batch.fanout);
        for (key, entry) in sorted {
            load.push(key.as_ref(), entry)?;
        }
        let keys = load.len();
        self.install(tree, load);
        Ok(keys)
    }

    /// Replaces a whole tree by one that was built aside.
    pub fn install(&mut self, tree: usize, load: BulkLoad) {
        let built = load.finish(&mut self.batch);
        let replaced = mem::replace(&mut self.trees[tree], built);
        replaced.root.discard_all(&mut self.batch);
    }

    /// Makes all changes since the last publish visible at once, in every tree, under `mark`.
    pub fn publish(&mut self, mark: u64) {
        self.current
            .publish(mark, &self.trees, &mut self.batch, &mut self.spare_states);
    }

    /// Lets the collector take a step. After some steps all replaced nodes that no reader can see
    /// any more are freed or spare. Publishes take such steps while there is much garbage; this
    /// is for a writer that publishes nothing.
    pub fn collect(&mut self) {
        self.batch.collect();
    }

    /// Heap bytes of all nodes of the working state, as requested from the
    /// allocator (its own overhead is not known here).
    pub fn memory_bytes(&self) -> u64 {
        self.batch.live_bytes
    }

    /// Heap bytes of replaced nodes that are kept for the next changes. They are bounded,
    /// whatever the size of the index.
    pub fn spare_bytes(&self) -> u64 {
        self.batch.spare.bytes() + self.current.returned_bytes()
    }

    /// Heap bytes of replaced nodes that are published as gone but not freed
    /// yet, because a reader may still look at them.
    pub fn garbage_bytes(&self) -> u64 {
        self.current.garbage_bytes()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let trees = mem::take(&mut self.trees);
        self.batch.abandon(trees.into_iter().map(|tree| tree.root));
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Writer({} trees, {} bytes)",
            self.trees.len(),
            self.memory_bytes()
        )
    }
}
