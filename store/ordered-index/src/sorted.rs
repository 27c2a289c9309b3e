//! Many changes at once, in the order of their keys.
//!
//! ```text
//!   changes       d  e  f     |    q        |   u  v  w  x
//!   before     [ a  d  e ]      [ p  q ]       [ u  z ]
//!   after      [ a  d' e' f ]   [ p ]          [ u' v  w ] [ x  z ]
//! ```
//!
//! Each touched leaf is rebuilt once, where changes one by one would walk from the
//! root and move the leaf's keys for each of them. That pays from a few changes per leaf on.

use crate::IndexEntry;
use crate::bulk::{BulkLoad, Placed, level_above, parents};
use crate::fanout::Fanout;
use crate::link::{Link, Unpublished};
use crate::node::{Inner, Leaf, NodeBody};
use crate::remove::absorb;
use crate::tree::Tree;
use std::mem;

/// A change of one key among many.
#[derive(Clone, Copy, Debug)]
pub struct Change<'k> {
    /// The key to change.
    pub key: &'k [u8],
    /// Its entry from now on; `None` removes the key.
    pub entry: Option<IndexEntry>,
}

/// Changes a tree; appends to `before` the entry that each change found.
pub(crate) fn change(
    tree: &mut Tree,
    changes: &[Change<'_>],
    before: &mut Vec<Option<IndexEntry>>,
    batch: &mut Unpublished,
) {
    let in_order = changes.is_sorted_by(|left, right| left.key < right.key);
    assert!(in_order, "changes that are not in the order of their keys");
    if changes.is_empty() {
        return;
    }
    let placeholder = batch.link(NodeBody::Leaf(Leaf::default()));
    let root = mem::replace(&mut tree.root, placeholder);
    let mut level = change_below(root, Vec::new(), changes, before, batch);
    while level.len() > 1 {
        level = level_above(level, batch);
    }
    tree.len = 0;
    if let Some(root) = level.pop() {
        tree.len = root.len;
        mem::replace(&mut tree.root, root.link).discard(batch);
    }
    tree.shrink(batch);
}

/// Changes a subtree. Returns the nodes that replace its root: of the same height, as many
/// as the result needs.
fn change_below(
    link: Link,
    separator: Vec<u8>,
    changes: &[Change<'_>],
    before: &mut Vec<Option<IndexEntry>>,
    batch: &mut Unpublished,
) -> Vec<Placed> {
    match link.take(batch) {
        NodeBody::Leaf(leaf) => {
            let mut load = BulkLoad::with_fanout(batch.fanout);
            change_leaf(&leaf, changes, before, &mut load);
            load.into_leaves(separator, batch)
        }
        NodeBody::Inner(inner) => {
            let children = change_children(inner, separator, changes, before, batch);
            let children = merge_narrow(children, batch);
            // As few nodes as possible, all of about the same width.
            let nodes = children.len().div_ceil(batch.fanout.inner);
            let width = children.len().div_ceil(nodes.max(1));
            parents(children, width, batch)
        }
    }
}

fn change_leaf(
    leaf: &Leaf,
    changes: &[Change<'_>],
    before: &mut Vec<Option<IndexEntry>>,
    load: &mut BulkLoad,
) {
    let (mut copied, mut key) = (0, Vec::new());
    let mut copy = |from, to, load: &mut BulkLoad| {
        for slot in from..to {
            leaf.keys.write_key(slot, &mut key);
            load.push(&key, leaf.entries.get(slot)).expect(ASCEND);
        }
    };
    for change in changes {
        let (slot, found) = match leaf.keys.search(change.key) {
            Ok(slot) => (slot, Some(leaf.entries.get(slot))),
            Err(slot) => (slot, None),
        };
        copy(copied, slot, load);
        copied = slot + usize::from(found.is_some());
        before.push(found);
        if let Some(entry) = change.entry {
            load.push(change.key, entry).expect(ASCEND);
        }
    }
    copy(copied, leaf.entries.len(), load);
}

const ASCEND: &str = "a leaf's keys ascend, and so do the changes";

fn change_children(
    inner: Inner,
    separator: Vec<u8>,
    mut changes: &[Change<'_>],
    before: &mut Vec<Option<IndexEntry>>,
    batch: &mut Unpublished,
) -> Vec<Placed> {
    let mut children = Vec::with_capacity(inner.children.len());
    let mut separator = Some(separator);
    let links = inner.children.into_iter().zip(inner.counts);
    for (child, (link, len)) in links.enumerate() {
        let next = (child < inner.separators.len()).then(|| inner.separators.key(child));
        let own = match &next {
            Some(next) => changes.partition_point(|change| change.key < &next[..]),
            None => changes.len(),
        };
        let (own, later) = changes.split_at(own);
        changes = later;
        let separator = mem::replace(&mut separator, next).expect("one between any two children");
        if own.is_empty() {
            children.push(Placed {
                separator,
                link,
                len,
            });
        } else {
            children.extend(change_below(link, separator, own, before, batch));
        }
    }
    children
}

/// Merges neighbours of which one has become narrow, as removals of single keys do.
fn merge_narrow(children: Vec<Placed>, batch: &mut Unpublished) -> Vec<Placed> {
    let mut merged: Vec<Placed> = Vec::with_capacity(children.len());
    for right in children {
        match merged.last_mut() {
            Some(left) if should_merge(left, &right, batch) => {
                left.len += right.len;
                absorb(&mut left.link, right.link, &right.separator, batch);
            }
            _ => merged.push(right),
        }
    }
    merged
}

fn should_merge(left: &Placed, right: &Placed, batch: &Unpublished) -> bool {
    let slots_max = match &left.link.body {
        NodeBody::Leaf(_) => batch.fanout.leaf,
        NodeBody::Inner(_) => batch.fanout.inner,
    };
    let (left, right) = (left.link.body.slots(), right.link.body.slots());
    let narrow = left.min(right) < Fanout::underfull(slots_max).max(1);
    narrow && left + right <= Fanout::merged(slots_max)
}
