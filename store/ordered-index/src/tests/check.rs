//! Every invariant of a tree, by a full walk.

use crate::fanout::Fanout;
use crate::node::{Inner, Leaf, NodeBody, TreeNode};
use crate::writer::Writer;
use std::collections::BTreeMap;

use crate::IndexEntry;

/// Measures of a subtree.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) keys: u64,
    pub(super) heap_bytes: u64,
    pub(super) levels: usize,
    pub(super) leaves: u64,
}

/// Keys of a subtree k obey lower <= k < upper.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Checks all trees and the tracked memory; returns what was found per tree.
pub(super) fn check(writer: &Writer) -> Vec<Found> {
    let fanout = writer.batch.fanout;
    let found: Vec<Found> = writer
        .trees
        .iter()
        .map(|tree| {
            let found = check_node(&tree.root, (None, None), fanout, true);
            assert_eq!(found.keys, tree.len, "the tree's length");
            found
        })
        .collect();
    let heap_bytes: u64 = found.iter().map(|found| found.heap_bytes).sum();
    assert_eq!(heap_bytes, writer.memory_bytes(), "the tracked memory");
    found
}

fn check_node(node: &TreeNode, bounds: Bounds<'_>, fanout: Fanout, is_root: bool) -> Found {
    assert!(
        is_root || node.body.slots() > 0,
        "an empty node below the root"
    );
    match &node.body {
        NodeBody::Leaf(leaf) => {
            check_leaf(leaf, bounds, fanout);
            let keys = leaf.entries.len() as u64;
            Found {
                keys,
                heap_bytes: node.heap_bytes(),
                levels: 1,
                leaves: 1,
            }
        }
        NodeBody::Inner(inner) => {
            assert!(
                !is_root || inner.children.len() > 1,
                "a root with one child"
            );
            let below = check_inner(inner, bounds, fanout);
            Found {
                heap_bytes: below.heap_bytes + node.heap_bytes(),
                levels: below.levels + 1,
                ..below
            }
        }
    }
}

fn check_leaf(leaf: &Leaf, (lower, upper): Bounds<'_>, fanout: Fanout) {
    assert!(
        leaf.entries.len() <= fanout.leaf,
        "a leaf of {} keys",
        leaf.entries.len()
    );
    assert_eq!(leaf.keys.len(), leaf.entries.len());
    let keys: Vec<Vec<u8>> = (0..leaf.keys.len())
        .map(|slot| leaf.keys.key(slot))
        .collect();
    assert!(
        keys.is_sorted_by(|left, right| left < right),
        "keys out of order"
    );
    for (slot, key) in keys.iter().enumerate() {
        assert!(
            lower.is_none_or(|lower| lower <= key.as_slice()),
            "{key:?} below {lower:?}"
        );
        assert!(
            upper.is_none_or(|upper| key.as_slice() < upper),
            "{key:?} not below {upper:?}"
        );
        assert_eq!(leaf.keys.search(key), Ok(slot), "search of {key:?}");
    }
}

fn check_inner(inner: &Inner, (lower, upper): Bounds<'_>, fanout: Fanout) -> Found {
    inner.assert_aligned();
    assert!(
        inner.children.len() <= fanout.inner,
        "{} children",
        inner.children.len()
    );
    let separators: Vec<Vec<u8>> = (0..inner.separators.len())
        .map(|slot| inner.separators.key(slot))
        .collect();
    assert!(
        separators.is_sorted_by(|left, right| left < right),
        "separators out of order"
    );
    let mut sum = Found {
        keys: 0,
        heap_bytes: 0,
        levels: 0,
        leaves: 0,
    };
    for (child, link) in inner.children.iter().enumerate() {
        let left = child
            .checked_sub(1)
            .map_or(lower, |slot| Some(separators[slot].as_slice()));
        let right = separators.get(child).map(Vec::as_slice).or(upper);
        let found = check_node(link, (left, right), fanout, false);
        assert_eq!(
            found.keys, inner.counts[child],
            "the count of child {child}"
        );
        assert!(
            sum.levels == 0 || sum.levels == found.levels,
            "leaves on two levels"
        );
        sum.keys += found.keys;
        sum.heap_bytes += found.heap_bytes;
        sum.leaves += found.leaves;
        sum.levels = found.levels;
    }
    sum
}

/// The tree holds exactly the model's keys and entries.
pub(super) fn check_content(writer: &Writer, tree: usize, model: &BTreeMap<Vec<u8>, IndexEntry>) {
    let mut cursor = writer.cursor(tree, std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    for (key, &entry) in model {
        assert_eq!(cursor.next(), Some((key.as_slice(), entry)));
    }
    assert_eq!(cursor.next(), None, "a key that the model does not have");
}
