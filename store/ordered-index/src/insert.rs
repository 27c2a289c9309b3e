//! Inserting a key, and splitting a node that has become too wide.
//!
//! A node splits in the middle, except when the key that filled it is its last
//! one: then it keeps all the others. Ascending keys, which is how revisions
//! and most generated names arrive, so leave full nodes behind instead of half
//! empty ones.

use crate::IndexEntry;
use crate::bulk::Placed;
use crate::keys::Keys;
use crate::link::{Link, Unpublished};
use crate::node::{Inner, Leaf, NodeBody};
use crate::tree::Tree;
use std::mem;

/// Room in a copied node for the insert it was copied for.
pub(crate) const SLOTS_INSERTED: usize = 1;

enum Inserted {
    Replaced(IndexEntry),
    Added,
    /// Added, and the upper part of the node was split off.
    Split(Placed),
}

impl Tree {
    pub(crate) fn empty(batch: &mut Unpublished) -> Tree {
        Tree {
            root: batch.link(NodeBody::Leaf(Leaf::default())),
            len: 0,
        }
    }

    pub(crate) fn insert(
        &mut self,
        key: &[u8],
        entry: IndexEntry,
        batch: &mut Unpublished,
    ) -> Option<IndexEntry> {
        let inserted = insert_below(&mut self.root, key, entry, batch);
        if let Inserted::Replaced(old) = inserted {
            return Some(old);
        }
        self.len += 1;
        if let Inserted::Split(sibling) = inserted {
            self.grow(sibling, batch);
        }
        None
    }

    /// Makes a new root above the two halves of a root that has split.
    fn grow(&mut self, sibling: Placed, batch: &mut Unpublished) {
        assert!(
            sibling.len < self.len,
            "{} of {} keys went into the sibling",
            sibling.len,
            self.len
        );
        let mut above = Inner::default();
        let new_root = batch.link(NodeBody::Inner(Inner::default()));
        above.children.push(mem::replace(&mut self.root, new_root));
        above.counts.push(self.len - sibling.len);
        above.insert_child(1, &sibling.separator, sibling.link, sibling.len);
        self.root
            .edit(batch, 0, |root, _| root.body = NodeBody::Inner(above));
    }
}

fn insert_below(
    link: &mut Link,
    key: &[u8],
    entry: IndexEntry,
    batch: &mut Unpublished,
) -> Inserted {
    link.edit(batch, SLOTS_INSERTED, |node, batch| match &mut node.body {
        NodeBody::Leaf(leaf) => insert_in_leaf(leaf, key, entry, batch),
        NodeBody::Inner(inner) => insert_in_child(inner, key, entry, batch),
    })
}

fn insert_in_leaf(
    leaf: &mut Leaf,
    key: &[u8],
    entry: IndexEntry,
    batch: &mut Unpublished,
) -> Inserted {
    match leaf.keys.search(key) {
        Ok(slot) => Inserted::Replaced(leaf.entries.replace(slot, entry)),
        Err(slot) => {
            leaf.insert(slot, key, entry);
            if leaf.entries.len() <= batch.fanout.leaf {
                return Inserted::Added;
            }
            Inserted::Split(split_leaf(leaf, slot, batch))
        }
    }
}

fn insert_in_child(
    inner: &mut Inner,
    key: &[u8],
    entry: IndexEntry,
    batch: &mut Unpublished,
) -> Inserted {
    let child = inner.child_of(key);
    match insert_below(&mut inner.children[child], key, entry, batch) {
        Inserted::Replaced(old) => return Inserted::Replaced(old),
        Inserted::Added => inner.counts[child] += 1,
        Inserted::Split(sibling) => {
            inner.counts[child] = inner.counts[child] + 1 - sibling.len;
            inner.insert_child(child + 1, &sibling.separator, sibling.link, sibling.len);
        }
    }
    if inner.children.len() <= batch.fanout.inner {
        return Inserted::Added;
    }
    Inserted::Split(split_inner(inner, child + 1, batch))
}

/// The slot at which a full node is split.
fn split_point(slots: usize, inserted: usize) -> usize {
    if inserted + 1 == slots {
        inserted
    } else {
        slots / 2
    }
}

fn split_leaf(leaf: &mut Leaf, inserted: usize, batch: &mut Unpublished) -> Placed {
    let slots = leaf.entries.len();
    let at = split_point(slots, inserted);
    assert!(
        0 < at && at < slots,
        "a leaf of {slots} keys cannot split at {at}"
    );
    let separator = leaf.keys.separator_before(at);
    let upper = Leaf {
        keys: Keys::gather(&[(&leaf.keys, at..slots)]),
        entries: leaf.entries.part(at..slots),
    };
    leaf.keys = Keys::gather(&[(&leaf.keys, 0..at)]);
    leaf.entries = leaf.entries.part(0..at);
    Placed::new(separator, NodeBody::Leaf(upper), batch)
}

/// Splits an inner node. The separator at the split moves up: it is in neither half.
fn split_inner(inner: &mut Inner, inserted: usize, batch: &mut Unpublished) -> Placed {
    let slots = inner.children.len();
    let at = split_point(slots, inserted);
    assert!(
        0 < at && at < slots,
        "a node of {slots} children cannot split at {at}"
    );
    let separator = inner.separators.key(at - 1);
    let upper = Inner {
        separators: Keys::gather(&[(&inner.separators, at..slots - 1)]),
        children: inner.children.split_off(at),
        counts: inner.counts.split_off(at),
    };
    inner.separators = Keys::gather(&[(&inner.separators, 0..at - 1)]);
    inner.children.shrink_to_fit();
    inner.counts.shrink_to_fit();
    inner.assert_aligned();
    upper.assert_aligned();
    Placed::new(separator, NodeBody::Inner(upper), batch)
}
