//! A walk over a key range from both ends.
//!
//! ```text
//!      low                                   high      numbers of keys in the tree
//!       |   next() ->            <- next_back() |
//!   k0  k1  k2  k3  ...                     k8  k9
//! ```
//!
//! Both bounds become key numbers at the start, so the walk itself compares no
//! keys, the ends meet by arithmetic, and `remaining` is known before the first
//! step: a limited range request gets its full count without a walk.

use crate::IndexEntry;
use crate::node::{Inner, Leaf, NodeBody};
use crate::tree::Tree;
use std::fmt;
use std::ops::Bound;

/// A walk over a key range from both ends; the two ends stop where they meet.
///
/// It lends its keys from a buffer, one at a time; copy a key to keep it.
pub struct Cursor<'a> {
    tree: &'a Tree,
    /// Number of the key that `next` returns.
    low: u64,
    /// One more than the number of the key that `next_back` returns; not below `low`.
    high: u64,
    /// Stands before key `low`; made by the first `next`.
    front: Option<Path<'a>>,
    /// Stands before key `high`; made by the first `next_back`.
    back: Option<Path<'a>>,
    /// The key lent last.
    key: Vec<u8>,
}

/// A gap between two keys: the way from the root, and a slot of the leaf.
struct Path<'a> {
    above: Vec<(&'a Inner, usize)>,
    leaf: &'a Leaf,
    /// The key right of the gap; the leaf's length when that is in the next leaf.
    slot: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(tree: &'a Tree, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Cursor<'a> {
        let low = match start {
            Bound::Unbounded => 0,
            Bound::Included(key) => tree.rank(key).before,
            Bound::Excluded(key) => tree.rank(key).through(),
        };
        let high = match end {
            Bound::Unbounded => tree.len,
            Bound::Included(key) => tree.rank(key).through(),
            Bound::Excluded(key) => tree.rank(key).before,
        };
        Cursor {
            tree,
            low,
            high: high.max(low),
            front: None,
            back: None,
            key: Vec::new(),
        }
    }

    /// The smallest key not yet seen.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends its key, an iterator cannot"
    )]
    pub fn next(&mut self) -> Option<(&[u8], IndexEntry)> {
        let (leaf, slot) = self.step()?;
        leaf.keys.write_key(slot, &mut self.key);
        Some((&self.key, leaf.entries.get(slot)))
    }

    /// The same with the key added to `keys`.
    pub fn next_into(&mut self, keys: &mut Vec<u8>) -> Option<IndexEntry> {
        let (leaf, slot) = self.step()?;
        leaf.keys.add_key(slot, keys);
        Some(leaf.entries.get(slot))
    }

    /// The entry of the smallest key not yet seen. Its key is not copied, so the step costs the
    /// same whatever its length.
    pub fn next_entry(&mut self) -> Option<IndexEntry> {
        let (leaf, slot) = self.step()?;
        Some(leaf.entries.get(slot))
    }

    /// Crosses the smallest key not yet seen.
    #[inline]
    fn step(&mut self) -> Option<(&'a Leaf, usize)> {
        if self.low == self.high {
            return None;
        }
        let path = self
            .front
            .get_or_insert_with(|| Path::before(self.tree, self.low));
        self.low += 1;
        Some(path.step())
    }

    /// The greatest key not yet seen.
    pub fn next_back(&mut self) -> Option<(&[u8], IndexEntry)> {
        if self.low == self.high {
            return None;
        }
        let path = self
            .back
            .get_or_insert_with(|| Path::before(self.tree, self.high));
        let (leaf, slot) = path.step_back();
        self.high -= 1;
        leaf.keys.write_key(slot, &mut self.key);
        Some((&self.key, leaf.entries.get(slot)))
    }

    /// Keys not yet seen; known without a walk.
    pub fn remaining(&self) -> u64 {
        self.high - self.low
    }

    /// Passes over up to `keys` keys in O(log n).
    pub fn skip(&mut self, keys: u64) {
        self.low += keys.min(self.remaining());
        self.front = None;
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Cursor(keys {}..{} of {})",
            self.low, self.high, self.tree.len
        )
    }
}

impl<'a> Path<'a> {
    /// The gap with `n` keys on its left.
    fn before(tree: &'a Tree, mut n: u64) -> Path<'a> {
        assert!(n <= tree.len, "gap {n} in a tree of {} keys", tree.len);
        let mut above = Vec::with_capacity(8);
        let mut link = &tree.root;
        loop {
            match &link.body {
                NodeBody::Leaf(leaf) => {
                    return Path {
                        above,
                        leaf,
                        slot: n as usize,
                    };
                }
                NodeBody::Inner(inner) => {
                    // Past the last key is the end of the last child.
                    let (child, rest) = if n == 0 {
                        (0, 0)
                    } else {
                        inner.child_at(n - 1)
                    };
                    n = if n == 0 { 0 } else { rest + 1 };
                    above.push((inner, child));
                    link = &inner.children[child];
                }
            }
        }
    }

    /// Crosses the key on the right.
    #[inline]
    fn step(&mut self) -> (&'a Leaf, usize) {
        if self.slot == self.leaf.entries.len() {
            self.enter(1);
            self.slot = 0;
        }
        self.slot += 1;
        (self.leaf, self.slot - 1)
    }

    /// Crosses the key on the left.
    #[inline]
    fn step_back(&mut self) -> (&'a Leaf, usize) {
        if self.slot == 0 {
            self.enter(-1);
            self.slot = self.leaf.entries.len();
        }
        self.slot -= 1;
        (self.leaf, self.slot)
    }

    /// Moves to the leaf on the right (1) or left (-1): up to where the way can turn, and down.
    fn enter(&mut self, direction: isize) {
        let turns = |(inner, child): &(&Inner, usize)| {
            child
                .checked_add_signed(direction)
                .is_some_and(|next| next < inner.children.len())
        };
        while !turns(
            self.above
                .last()
                .expect("the key counts promise another leaf"),
        ) {
            self.above.pop();
        }
        let (inner, child) = self.above.last_mut().expect("the loop stopped at a turn");
        *child = child
            .checked_add_signed(direction)
            .expect("the turn was checked");
        let mut link = &inner.children[*child];
        while let NodeBody::Inner(inner) = &link.body {
            let child = if direction > 0 {
                0
            } else {
                inner.children.len() - 1
            };
            self.above.push((inner, child));
            link = &inner.children[child];
        }
        let NodeBody::Leaf(leaf) = &link.body else {
            unreachable!("the loop ends at a leaf")
        };
        assert!(
            !leaf.entries.is_empty(),
            "an empty leaf below an inner node"
        );
        self.leaf = leaf;
    }
}
