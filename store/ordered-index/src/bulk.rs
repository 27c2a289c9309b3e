//! Building a tree from ascending keys: leaves first, then level by level up.
//!
//! Nodes are filled to 95 %, so that the first inserts after a restart do not
//! split every one of them. The leaves are built without the writer: the trees
//! of an index can be loaded in parallel, and parts of one tree too ([`BulkLoad::append`]).

use crate::IndexEntry;
use crate::capacity::capacity_for;
use crate::entries::Entries;
use crate::fanout::Fanout;
use crate::insert::SLOTS_INSERTED;
use crate::keys::{self, KeyRun, Keys};
use crate::link::{Link, Unpublished};
use crate::node::{Inner, Leaf, NodeBody, TreeNode};
use crate::node_vec::NodeBox;
use crate::tree::Tree;
use std::borrow::Cow;
use std::fmt;
use std::mem;

/// A key that was not greater than the one before it: the input is not sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// Number of keys accepted before it.
    pub accepted: u64,
}

impl fmt::Display for OutOfOrder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepted = self.accepted;
        write!(
            out,
            "bulk load: the key after the first {accepted} is not greater than the last"
        )
    }
}

impl std::error::Error for OutOfOrder {}

/// A tree under construction from ascending keys.
#[derive(Debug, Default)]
pub struct BulkLoad {
    fanout: Fanout,
    accepted: u64,
    /// The leaf that keys are added to, until it is as full as a bulk load fills leaves. It has
    /// the last key: it is closed only when another comes.
    open: OpenLeaf,
    /// Separator on the left of `open`; empty for the first leaf.
    open_separator: Vec<u8>,
    leaves: Vec<(Vec<u8>, NodeBox<TreeNode>)>,
    leaves_bytes: u64,
}

/// The content of a leaf, in memory that all leaves are gathered in.
#[derive(Debug, Default)]
struct OpenLeaf {
    keys: KeyRun,
    /// Same order as `keys`.
    entries: Vec<IndexEntry>,
    /// Memory for the rows of `keys` while the leaf is closed.
    key_rows: Vec<keys::Row>,
}

impl OpenLeaf {
    /// The leaf with this content, which is gone from here. No batch has made it. It is as large
    /// as its first copy will be, also if positions or revisions have got wider by then: so such a
    /// copy fits into the memory that another leaf has left.
    fn close(&mut self) -> NodeBox<TreeNode> {
        let capacity = capacity_for(self.entries.len() + SLOTS_INSERTED);
        let leaf = Leaf {
            keys: Keys::of_run(&self.keys, capacity, &mut self.key_rows),
            entries: Entries::of(&self.entries, capacity),
        };
        self.keys.clear();
        self.entries.clear();
        NodeBox::new(TreeNode {
            born: 0,
            body: NodeBody::Leaf(leaf),
        })
    }
}

/// A finished node, the separator on its left and the keys below it.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) separator: Vec<u8>,
    pub(crate) link: Link,
    pub(crate) len: u64,
}

impl Placed {
    pub(crate) fn new(separator: Vec<u8>, body: NodeBody, batch: &mut Unpublished) -> Placed {
        let len = match &body {
            NodeBody::Leaf(leaf) => leaf.entries.len() as u64,
            NodeBody::Inner(inner) => inner.counts.iter().sum(),
        };
        Placed {
            separator,
            link: batch.link(body),
            len,
        }
    }
}

impl BulkLoad {
    /// An empty tree.
    pub fn new() -> BulkLoad {
        BulkLoad::default()
    }

    /// An empty tree with nodes of this width; the writer's should be the same.
    pub fn with_fanout(fanout: Fanout) -> BulkLoad {
        BulkLoad {
            fanout,
            ..BulkLoad::default()
        }
    }

    /// Adds a key greater than all before. A refused key changes nothing.
    pub fn push(&mut self, key: &[u8], entry: IndexEntry) -> Result<(), OutOfOrder> {
        if !self.open.keys.ends_before(key) {
            return Err(OutOfOrder {
                accepted: self.accepted,
            });
        }
        if self.open.entries.len() == Fanout::loaded(self.fanout.leaf) {
            self.close_leaf(key);
        }
        self.open.keys.push(key);
        self.open.entries.push(entry);
        self.accepted += 1;
        Ok(())
    }

    /// Adds the keys of `later`, which was built aside and has nodes of the same width. All of
    /// them must be greater than all before; if not, nothing changes.
    pub fn append(&mut self, later: BulkLoad) -> Result<(), OutOfOrder> {
        assert_eq!(self.fanout, later.fanout, "leaves of two widths");
        let (Some(last), Some(next)) = (self.open.keys.last(), later.first_key()) else {
            if self.is_empty() {
                *self = later;
            }
            return Ok(());
        };
        if *next <= *last {
            return Err(OutOfOrder {
                accepted: self.accepted,
            });
        }
        self.close_leaf(&next);
        self.take_leaves(later);
        Ok(())
    }

    /// Adds the leaves of `later` behind a leaf that was just closed.
    fn take_leaves(&mut self, mut later: BulkLoad) {
        let separator = mem::take(&mut self.open_separator);
        match later.leaves.first_mut() {
            Some((on_the_left, _)) => *on_the_left = separator,
            None => later.open_separator = separator,
        }
        self.leaves.append(&mut later.leaves);
        self.leaves_bytes += later.leaves_bytes;
        self.open = later.open;
        self.open_separator = later.open_separator;
        self.accepted += later.accepted;
    }

    fn first_key(&self) -> Option<Cow<'_, [u8]>> {
        match self.leaves.first() {
            Some((_, leaf)) => Some(leaf.body.keys().key(0).into()),
            None => self.open.keys.first().map(Cow::from),
        }
    }

    /// Keys accepted so far.
    pub fn len(&self) -> u64 {
        self.accepted
    }

    /// Heap bytes that the full leaves will take in the index. Inner nodes take some percent
    /// of that besides.
    pub fn memory_bytes(&self) -> u64 {
        self.leaves_bytes
    }

    /// True before the first key.
    pub fn is_empty(&self) -> bool {
        self.accepted == 0
    }

    /// Closes the open leaf in front of `next`, the first key of another.
    fn close_leaf(&mut self, next: &[u8]) {
        let last = self.open.keys.last().expect("a leaf that is full");
        let separator = keys::separator(last, next);
        let leaf = self.open.close();
        self.leaves_bytes += leaf.heap_bytes();
        self.leaves
            .push((mem::replace(&mut self.open_separator, separator), leaf));
    }

    /// The leaves alone; `separator` stands on the left of the first.
    pub(crate) fn into_leaves(
        mut self,
        separator: Vec<u8>,
        batch: &mut Unpublished,
    ) -> Vec<Placed> {
        if !self.open.entries.is_empty() {
            let last = self.open.close();
            self.leaves.push((self.open_separator, last));
        }
        if let Some((first, _)) = self.leaves.first_mut() {
            *first = separator;
        }
        let place = |(separator, leaf): (_, NodeBox<TreeNode>)| Placed {
            separator,
            len: leaf.body.slots() as u64,
            link: batch.adopt(leaf),
        };
        self.leaves.into_iter().map(place).collect()
    }

    pub(crate) fn finish(self, batch: &mut Unpublished) -> Tree {
        let accepted = self.accepted;
        let mut level = self.into_leaves(Vec::new(), batch);
        while level.len() > 1 {
            level = level_above(level, batch);
        }
        let Some(root) = level.pop() else {
            return Tree::empty(batch);
        };
        assert_eq!(root.len, accepted, "keys were lost on the way up");
        Tree {
            root: root.link,
            len: root.len,
        }
    }
}

/// The level above, of nodes as full as a bulk load fills them.
pub(crate) fn level_above(below: Vec<Placed>, batch: &mut Unpublished) -> Vec<Placed> {
    parents(below, Fanout::loaded(batch.fanout.inner), batch)
}

/// Nodes above these children, each with `width` of them.
pub(crate) fn parents(children: Vec<Placed>, width: usize, batch: &mut Unpublished) -> Vec<Placed> {
    let mut above = Vec::with_capacity(children.len().div_ceil(width.max(1)));
    let mut children = children.into_iter();
    while let Some(first) = children.next() {
        above.push(parent(first, children.by_ref().take(width - 1), batch));
    }
    above
}

/// A node above these children. The first child's separator moves up, the others stay
/// between the children.
fn parent(
    first: Placed,
    others: impl ExactSizeIterator<Item = Placed>,
    batch: &mut Unpublished,
) -> Placed {
    let mut separators = Keys::default();
    let mut inner = Inner::default();
    inner.children.reserve_exact(1 + others.len());
    inner.counts.reserve_exact(1 + others.len());
    inner.children.push(first.link);
    inner.counts.push(first.len);
    for child in others {
        separators.push(&child.separator);
        inner.children.push(child.link);
        inner.counts.push(child.len);
    }
    inner.separators = Keys::gather(&[(&separators, 0..separators.len())]);
    inner.assert_aligned();
    Placed::new(first.separator, NodeBody::Inner(inner), batch)
}
