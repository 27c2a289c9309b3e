//! A node: a leaf with entries or an inner node with children and their counts.
//!
//! ```text
//!   inner   separators        k1      k2      k3
//!           children     c0  |   c1  |   c2  |   c3      c1 holds k1 <= key < k2
//!           counts       91     77      120     64       keys below each child
//! ```
//!
//! The counts make `rank`, `count` and `nth` one walk from the root to a leaf.

use crate::IndexEntry;
use crate::capacity::{SLOTS_IN_CLASS, fits};
use crate::entries::Entries;
use crate::keys::{Keys, make_room};
use crate::link::Link;
use crate::node_vec::NodeVec;

#[derive(Debug)]
pub(crate) struct TreeNode {
    /// Number of the batch that made this node. Only that batch may change it.
    pub(crate) born: u64,
    pub(crate) body: NodeBody,
}

#[derive(Debug)]
pub(crate) enum NodeBody {
    Leaf(Leaf),
    Inner(Inner),
}

#[derive(Debug, Default)]
pub(crate) struct Leaf {
    pub(crate) keys: Keys,
    /// Same slots as `keys`.
    pub(crate) entries: Entries,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    /// One less than children; separator i is greater than every key below
    /// child i and not greater than any below child i + 1.
    pub(crate) separators: Keys,
    pub(crate) children: NodeVec<Link>,
    /// Keys below each child; same slots as `children`.
    pub(crate) counts: NodeVec<u64>,
}

impl NodeBody {
    /// Keys of a leaf, children of an inner node.
    pub(crate) fn slots(&self) -> usize {
        match self {
            NodeBody::Leaf(leaf) => leaf.entries.len(),
            NodeBody::Inner(inner) => inner.children.len(),
        }
    }

    /// Whether a copy with `capacity` slots fits into the memory of `old`, which is of the same
    /// kind.
    pub(crate) fn fits_into(&self, old: &NodeBody, capacity: usize) -> bool {
        match (self, old) {
            (NodeBody::Leaf(leaf), NodeBody::Leaf(old)) => {
                leaf.keys.fits_into(&old.keys, capacity)
                    && leaf.entries.fits_into(&old.entries, capacity)
            }
            (NodeBody::Inner(inner), NodeBody::Inner(old)) => {
                inner.separators.fits_into(&old.separators, capacity)
                    && fits(old.children.capacity(), capacity, SLOTS_IN_CLASS)
                    && fits(old.counts.capacity(), capacity, SLOTS_IN_CLASS)
            }
            _ => false,
        }
    }

    /// An empty body of the same kind.
    pub(crate) fn empty_like(&self) -> NodeBody {
        match self {
            NodeBody::Leaf(_) => NodeBody::Leaf(Leaf::default()),
            NodeBody::Inner(_) => NodeBody::Inner(Inner::default()),
        }
    }

    /// Its keys or separators.
    pub(crate) fn keys(&self) -> &Keys {
        match self {
            NodeBody::Leaf(leaf) => &leaf.keys,
            NodeBody::Inner(inner) => &inner.separators,
        }
    }
}

impl TreeNode {
    /// Bytes of this node on the heap, its children's not included.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let content = match &self.body {
            NodeBody::Leaf(leaf) => return leaf.node_bytes(),
            NodeBody::Inner(inner) => {
                inner.separators.heap_bytes()
                    + inner.children.capacity() * size_of::<Link>()
                    + inner.counts.capacity() * size_of::<u64>()
            }
        };
        (size_of::<TreeNode>() + content) as u64
    }
}

impl Leaf {
    /// Bytes on the heap of a node that holds this.
    pub(crate) fn node_bytes(&self) -> u64 {
        let content = self.keys.heap_bytes() + self.entries.heap_bytes();
        (size_of::<TreeNode>() + content) as u64
    }

    pub(crate) fn insert(&mut self, slot: usize, key: &[u8], entry: IndexEntry) {
        self.keys.insert(slot, key);
        self.entries.insert(slot, entry);
        assert_eq!(
            self.keys.len(),
            self.entries.len(),
            "a key without entry in a leaf"
        );
    }

    pub(crate) fn remove(&mut self, slot: usize) -> IndexEntry {
        self.keys.remove(slot);
        self.entries.remove(slot)
    }
}

impl Inner {
    /// The child with the range that holds `key`.
    #[inline]
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        match self.separators.search(key) {
            Ok(slot) => slot + 1,
            Err(slot) => slot,
        }
    }

    /// Keys below all children left of `child`.
    #[inline]
    pub(crate) fn keys_before(&self, child: usize) -> u64 {
        self.counts[..child].iter().sum()
    }

    /// The child below which key number `n` lies, and its number there.
    pub(crate) fn child_at(&self, mut n: u64) -> (usize, u64) {
        for (child, &count) in self.counts.iter().enumerate() {
            if n < count {
                return (child, n);
            }
            n -= count;
        }
        panic!(
            "key number {n} beyond the last of {} children",
            self.counts.len()
        );
    }

    pub(crate) fn insert_child(&mut self, at: usize, separator: &[u8], child: Link, count: u64) {
        self.separators.insert(at - 1, separator);
        make_room(&mut self.children);
        make_room(&mut self.counts);
        self.children.insert(at, child);
        self.counts.insert(at, count);
        self.assert_aligned();
    }

    /// Takes out a child with the separator on its left (the first: on its right).
    pub(crate) fn remove_child(&mut self, at: usize) -> (Link, u64) {
        if self.separators.len() > 0 {
            self.separators.remove(at.saturating_sub(1));
        }
        let removed = (self.children.remove(at), self.counts.remove(at));
        self.assert_aligned();
        removed
    }

    pub(crate) fn assert_aligned(&self) {
        let (separators, children) = (self.separators.len(), self.children.len());
        assert_eq!(
            separators,
            children.saturating_sub(1),
            "separators do not fit the children"
        );
        assert_eq!(
            self.counts.len(),
            children,
            "counts do not fit the children"
        );
    }
}
