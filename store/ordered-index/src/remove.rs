//! Removing a key, and merging nodes that have become narrow.
//!
//! An empty node leaves at once. One below a quarter of its width merges with a
//! neighbour when both together stay below three quarters, so that a tree
//! under inserts and removals does not split and merge in turns.

use crate::IndexEntry;
use crate::fanout::Fanout;
use crate::keys::Keys;
use crate::link::{Link, Unpublished};
use crate::node::{Inner, Leaf, NodeBody};
use crate::tree::Tree;
use std::mem;

impl Tree {
    pub(crate) fn remove(&mut self, key: &[u8], batch: &mut Unpublished) -> Option<IndexEntry> {
        // A key that is not there must not cost the copy of a path.
        self.get(key)?;
        let removed = remove_below(&mut self.root, key, batch);
        self.len -= 1;
        self.shrink(batch);
        Some(removed)
    }

    /// Replaces a root that has one child by this child.
    pub(crate) fn shrink(&mut self, batch: &mut Unpublished) {
        while matches!(&self.root.body, NodeBody::Inner(inner) if inner.children.len() == 1) {
            let placeholder = batch.link(NodeBody::Leaf(Leaf::default()));
            let root = mem::replace(&mut self.root, placeholder);
            let NodeBody::Inner(mut inner) = root.take(batch) else {
                panic!("a root with one child is an inner node");
            };
            let (child, len) = inner.remove_child(0);
            assert_eq!(
                len, self.len,
                "the only child counts other keys than the tree"
            );
            mem::replace(&mut self.root, child).discard(batch);
        }
        assert!(
            self.root.body.slots() > 0 || self.len == 0,
            "{} keys, empty root",
            self.len
        );
    }
}

fn remove_below(link: &mut Link, key: &[u8], batch: &mut Unpublished) -> IndexEntry {
    link.edit(batch, 0, |node, batch| match &mut node.body {
        NodeBody::Leaf(leaf) => {
            let slot = leaf
                .keys
                .search(key)
                .expect("the key was found before the path was copied");
            leaf.remove(slot)
        }
        NodeBody::Inner(inner) => {
            let child = inner.child_of(key);
            let removed = remove_below(&mut inner.children[child], key, batch);
            assert!(
                inner.counts[child] > 0,
                "a key came from a child that counts none"
            );
            inner.counts[child] -= 1;
            mend(inner, child, batch);
            removed
        }
    })
}

/// Drops a child that has become empty, merges one that has become narrow.
fn mend(inner: &mut Inner, child: usize, batch: &mut Unpublished) {
    let (slots, slots_max) = width(inner, child, batch);
    if slots == 0 {
        let (empty, keys) = inner.remove_child(child);
        assert_eq!(keys, 0, "an empty child counts keys");
        return empty.discard(batch);
    }
    if slots >= Fanout::underfull(slots_max).max(1) {
        return;
    }
    let fits = |left: usize| {
        let together = width(inner, left, batch).0 + width(inner, left + 1, batch).0;
        together <= Fanout::merged(slots_max)
    };
    if child > 0 && fits(child - 1) {
        merge(inner, child - 1, batch);
    } else if child + 1 < inner.children.len() && fits(child) {
        merge(inner, child, batch);
    }
}

/// Slots of a child, and how many it may have.
fn width(inner: &Inner, child: usize, batch: &Unpublished) -> (usize, usize) {
    let body = &inner.children[child].body;
    let slots_max = match body {
        NodeBody::Leaf(_) => batch.fanout.leaf,
        NodeBody::Inner(_) => batch.fanout.inner,
    };
    (body.slots(), slots_max)
}

/// Child `left + 1` moves into child `left`.
fn merge(inner: &mut Inner, left: usize, batch: &mut Unpublished) {
    let separator = inner.separators.key(left);
    let (right, keys) = inner.remove_child(left + 1);
    inner.counts[left] += keys;
    absorb(&mut inner.children[left], right, &separator, batch);
}

/// All of `right` moves into its left neighbour, of the same kind.
pub(crate) fn absorb(left: &mut Link, right: Link, separator: &[u8], batch: &mut Unpublished) {
    let right = right.take(batch);
    left.edit(batch, 0, |node, _| match (&mut node.body, right) {
        (NodeBody::Leaf(left), NodeBody::Leaf(right)) => absorb_leaf(left, &right),
        (NodeBody::Inner(left), NodeBody::Inner(right)) => absorb_inner(left, right, separator),
        (left, right) => panic!("siblings of different kinds: {left:?} and {right:?}"),
    });
}

fn absorb_leaf(left: &mut Leaf, right: &Leaf) {
    let parts = [
        (&left.keys, 0..left.keys.len()),
        (&right.keys, 0..right.keys.len()),
    ];
    left.keys = Keys::gather(&parts);
    left.entries = left.entries.followed_by(&right.entries);
}

/// Moves the children of `right` into `left`. The separator of the two nodes becomes one
/// between two children.
fn absorb_inner(left: &mut Inner, right: Inner, separator: &[u8]) {
    left.separators.push(separator);
    let parts = [
        (&left.separators, 0..left.separators.len()),
        (&right.separators, 0..right.separators.len()),
    ];
    left.separators = Keys::gather(&parts);
    left.children.append(right.children);
    left.counts.append(right.counts);
    left.assert_aligned();
}
