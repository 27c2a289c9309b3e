//! Lookups in one tree: a walk from the root to a leaf, without a lock.

use crate::IndexEntry;
use crate::link::Link;
use crate::node::{Leaf, NodeBody};

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Link,
    /// Keys in the tree.
    pub(crate) len: u64,
}

/// Where a key stands among the keys of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    /// Keys smaller than it.
    pub(crate) before: u64,
    /// Whether the tree has it.
    pub(crate) found: bool,
}

impl Rank {
    /// Keys not greater than it.
    pub(crate) fn through(self) -> u64 {
        self.before + u64::from(self.found)
    }
}

impl Tree {
    /// The leaf with the range that holds `key`.
    #[inline]
    fn leaf_of(&self, key: &[u8]) -> &Leaf {
        let mut link = &self.root;
        loop {
            match &link.body {
                NodeBody::Leaf(leaf) => return leaf,
                NodeBody::Inner(inner) => link = &inner.children[inner.child_of(key)],
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<IndexEntry> {
        let leaf = self.leaf_of(key);
        let slot = leaf.keys.search(key).ok()?;
        Some(leaf.entries.get(slot))
    }

    pub(crate) fn rank(&self, key: &[u8]) -> Rank {
        let mut link = &self.root;
        let mut before = 0;
        loop {
            match &link.body {
                NodeBody::Leaf(leaf) => {
                    let (slot, found) = match leaf.keys.search(key) {
                        Ok(slot) => (slot, true),
                        Err(slot) => (slot, false),
                    };
                    before += slot as u64;
                    return Rank { before, found };
                }
                NodeBody::Inner(inner) => {
                    let child = inner.child_of(key);
                    before += inner.keys_before(child);
                    link = &inner.children[child];
                }
            }
        }
    }

    /// Keys k with start <= k < end; no end means to the last key.
    pub(crate) fn count(&self, start: &[u8], end: Option<&[u8]>) -> u64 {
        let end = end.map_or(self.len, |end| self.rank(end).before);
        end.saturating_sub(self.rank(start).before)
    }

    pub(crate) fn nth(&self, mut n: u64) -> Option<(Vec<u8>, IndexEntry)> {
        if n >= self.len {
            return None;
        }
        let mut link = &self.root;
        loop {
            match &link.body {
                NodeBody::Leaf(leaf) => {
                    return Some((leaf.keys.key(n as usize), leaf.entries.get(n as usize)));
                }
                NodeBody::Inner(inner) => {
                    let (child, rest) = inner.child_at(n);
                    (link, n) = (&inner.children[child], rest);
                }
            }
        }
    }
}
