//! Ownership of nodes, and when they are freed.
//!
//! ```text
//!     published state 7                working state (becomes 8)
//!          root A                           root A'          born in batch 8
//!         /      \                         /       \
//!        B        C  <---- shared ------- C         B'       born in batch 8
//!
//!     retired by batch 8: A, B  -- recycled when no reader can still hold state 7
//! ```
//!
//! A link is a plain pointer; copying a node copies its links and touches no
//! reference count, because a count would cost a cache miss per child.
//! What makes that sound are five rules:
//!
//! 1. A node born in the running batch is reachable from the writer's working
//!    trees alone, through one single link. It is changed in place.
//! 2. An older node is never changed. The writer replaces it by a copy and
//!    retires it.
//! 3. A link is reached only through `&Writer`, through a pinned `Snapshot`, or
//!    through a node reached so. (`Link` cannot be cloned outside this file.)
//! 4. The epoch collector releases a retired node after the state that
//!    replaced it has been published and every reader pinned before that has
//!    gone; a node of the running batch is freed at once when it is dropped.
//! 5. A released node is owned, as a box, before it is written to: no link
//!    leads to a spare node and no spare node's links are followed. It becomes a
//!    node of the running batch when it is filled again (rule 1).
//!
//! From 3 and 4 follows that a borrow of a link may borrow its node for the same
//! time, which is what `Deref` does.

mod participant;
mod state;

use crate::capacity::{capacity_for, refill, reserve_about};
use crate::fanout::Fanout;
use crate::node::{NodeBody, TreeNode};
use crate::node_vec::{NodeBox, NodeVec, Plain};
use crate::spare::Spare;
use participant::Participant;
pub(crate) use state::{Current, Pinned, Published};
use std::mem;
use std::ops::Deref;
use std::ptr::NonNull;

/// A pointer to a node; see the rules above. Dropping it frees nothing.
#[derive(Debug)]
pub(crate) struct Link(NonNull<TreeNode>);

// SAFETY: a node is plain data (integers, vectors, links). Shared access only
// reads it (rules 1 and 2), and a node may be freed on any thread.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}
// SAFETY: a pointer, and without a drop.
unsafe impl Plain for Link {}

impl Deref for Link {
    type Target = TreeNode;

    #[inline]
    fn deref(&self) -> &TreeNode {
        // SAFETY: rules 3 and 4: the node outlives every borrow of a link to it;
        // rule 1: no mutable reference exists while the link is borrowed.
        unsafe { self.0.as_ref() }
    }
}

impl Link {
    fn to(node: NodeBox<TreeNode>) -> Link {
        Link(node.into_pointer())
    }

    /// A second link to the node.
    ///
    /// # Safety
    /// The two links must belong to different states (a published one and the
    /// working one), or one of them must be forgotten before the next use.
    unsafe fn share(&self) -> Link {
        Link(self.0)
    }

    /// # Safety
    /// No other link to the node may be used from now on.
    unsafe fn free(self) -> NodeBox<TreeNode> {
        // SAFETY: the pointer is that of a box; the caller holds the last link.
        unsafe { NodeBox::from_pointer(self.0) }
    }

    fn is_fresh(&self, batch: &Unpublished) -> bool {
        self.born == batch.number
    }

    /// Changes the node: in place when this batch made it, otherwise a copy that
    /// replaces it (with room for `more` slots).
    pub(crate) fn edit<R>(
        &mut self,
        batch: &mut Unpublished,
        more: usize,
        change: impl FnOnce(&mut TreeNode, &mut Unpublished) -> R,
    ) -> R {
        if self.is_fresh(batch) {
            batch.live_bytes -= self.heap_bytes();
        } else {
            let copy = batch.copy(self, more);
            mem::replace(self, copy).discard(batch);
        }
        assert!(self.is_fresh(batch), "a published node must not change");
        // SAFETY: rule 1: the node is fresh, so this borrow of its one link is exclusive.
        let node = unsafe { self.0.as_mut() };
        let result = change(node, batch);
        batch.live_bytes += node.heap_bytes();
        result
    }

    /// Takes this node out of the working state (its children may stay in it).
    pub(crate) fn discard(self, batch: &mut Unpublished) {
        let bytes = self.heap_bytes();
        batch.live_bytes -= bytes;
        if self.is_fresh(batch) {
            // SAFETY: rule 1: no reader has seen it, and its one link ends here.
            drop(unsafe { self.free() });
        } else {
            batch.retired.bytes += bytes;
            batch.retired.links.push(self);
        }
    }

    /// The same, but returns a copy of its content.
    pub(crate) fn take(self, batch: &mut Unpublished) -> NodeBody {
        let mut body = self.body.empty_like();
        copy_body(&self, &mut body, self.body.slots());
        self.discard(batch);
        body
    }

    /// Takes this node and all nodes below it out of the working state.
    pub(crate) fn discard_all(self, batch: &mut Unpublished) {
        if let NodeBody::Inner(inner) = &self.body {
            for child in inner.children.iter() {
                // SAFETY: the parent that holds the other link is discarded below.
                unsafe { child.share() }.discard_all(batch);
            }
        }
        self.discard(batch);
    }

    /// # Safety
    /// As `free`, for every node below; `keep` is asked before each descent.
    unsafe fn free_all(self, keep: &impl Fn(&TreeNode) -> bool) {
        if keep(&self) {
            return;
        }
        // SAFETY: the caller's promise.
        let node = unsafe { self.free() };
        if let NodeBody::Inner(inner) = node.into_value().body {
            // SAFETY: the caller's promise covers the children.
            inner
                .children
                .into_iter()
                .for_each(|child| unsafe { child.free_all(keep) });
        }
    }
}

/// Replaces the content of `copy`, which is of the same kind, and gives it about
/// `capacity` slots. The children are shared: callers discard the original, so
/// that each child stays reachable by one link of the working state.
fn copy_body(node: &TreeNode, copy: &mut NodeBody, capacity: usize) {
    match (&node.body, copy) {
        (NodeBody::Leaf(leaf), NodeBody::Leaf(copy)) => {
            leaf.keys.copy_to(&mut copy.keys, capacity);
            leaf.entries.copy_to(&mut copy.entries, capacity);
        }
        (NodeBody::Inner(inner), NodeBody::Inner(copy)) => {
            inner.separators.copy_to(&mut copy.separators, capacity);
            share_all(&inner.children, &mut copy.children, capacity);
            refill(&mut copy.counts, &inner.counts, capacity);
        }
        (from, to) => panic!("a copy of another kind: {from:?} to {to:?}"),
    }
}

/// Fills `copy` with second links to the same nodes.
fn share_all(children: &[Link], copy: &mut NodeVec<Link>, capacity: usize) {
    copy.clear();
    reserve_about(copy, capacity);
    assert!(copy.capacity() >= children.len(), "a copy without room");
    // SAFETY: the callers of `copy_body` discard the node that holds the other links.
    unsafe { copy.extend_with_copies(children) };
}

/// Nodes that one state holds and the next one does not.
#[derive(Debug, Default)]
struct Retired {
    links: Vec<Link>,
    /// Heap bytes of these nodes.
    bytes: u64,
}

/// The writer's state since the last publish.
#[derive(Debug)]
pub(crate) struct Unpublished {
    /// Counts publishes; nodes that bear it are the writer's own.
    number: u64,
    /// Nodes of older batches that the working state no longer contains.
    retired: Retired,
    pub(crate) spare: Spare,
    participant: Participant,
    /// The last publish has urged the collector, which has another step to do.
    has_urged: bool,
    /// Heap bytes of all nodes in the working state.
    pub(crate) live_bytes: u64,
    pub(crate) fanout: Fanout,
}

impl Unpublished {
    pub(crate) fn new(fanout: Fanout) -> Unpublished {
        Unpublished {
            number: 1,
            retired: Retired::default(),
            spare: Spare::default(),
            participant: Participant::new(),
            has_urged: false,
            live_bytes: 0,
            fanout,
        }
    }

    /// Lets the collector take a step.
    pub(crate) fn collect(&mut self) {
        self.participant.collect();
    }

    /// A link to a new node with this content.
    pub(crate) fn link(&mut self, body: NodeBody) -> Link {
        self.adopt(NodeBox::new(TreeNode { born: 0, body }))
    }

    /// A link to a node that was made without a batch.
    pub(crate) fn adopt(&mut self, mut node: NodeBox<TreeNode>) -> Link {
        node.born = self.number;
        self.live_bytes += node.heap_bytes();
        Link::to(node)
    }

    /// A link to a copy with room for `more` slots. The caller discards the
    /// original, and counts the copy's bytes once it has been changed.
    fn copy(&mut self, original: &TreeNode, more: usize) -> Link {
        let capacity = capacity_for(original.body.slots() + more);
        let mut node = self
            .spare
            .node(&original.body, capacity)
            .unwrap_or_else(|| {
                NodeBox::new(TreeNode {
                    born: 0,
                    body: original.body.empty_like(),
                })
            });
        node.born = self.number;
        copy_body(original, &mut node.body, capacity);
        Link::to(node)
    }

    /// Frees the nodes that were never published. The working trees must not be used any more.
    pub(crate) fn abandon(&mut self, roots: impl Iterator<Item = Link>) {
        let number = self.number;
        for root in roots {
            // SAFETY: rule 1 for the fresh nodes; older ones are kept, and a node
            // that is not fresh has no fresh child.
            unsafe { root.free_all(&|node| node.born != number) };
        }
    }
}
