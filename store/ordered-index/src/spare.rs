//! Nodes that nothing reaches any more, kept to be used again.
//!
//! ```text
//!    Link::edit <---- Spare (the writer's) <---- Returned <---- the collector,
//!    a copy fills     by kind and by class       behind a lock     on any thread
//!    a spare node     of capacity                (try_lock only)
//! ```
//!
//! A batch of one change copies a path of nodes and retires the old one. To
//! ask the allocator for five blocks a node, and to give five back, costs
//! several times what the copying costs.
//!
//! Trade-off: some hundred KiB stay on the heap, and some MiB ([`KEPT_BYTES_MAX`], twice)
//! when many changes are published together; `Writer::spare_bytes` says how much. A block
//! of a spare node that does not fit the copy is not used, so that a tree of recycled nodes
//! is as tight as one of new ones.

use crate::capacity::{SLOTS_IN_CLASS, capacity_for};
use crate::node::{NodeBody, TreeNode};
use crate::node_vec::NodeBox;

/// The last class holds every wider node.
const CLASSES: usize = 18;
/// Bytes of returned nodes that are kept, and the same of spare ones, while every change is
/// published: some nodes of each class that is in use.
pub(crate) const KEPT_BYTES_MIN: u64 = 384 << 10;
/// Upper limit of these bytes, however many changes are published together.
pub(crate) const KEPT_BYTES_MAX: u64 = 4 << 20;
/// Number of batches with nodes worth keeping: the collector releases those of several
/// batches at a time.
const BATCHES_KEPT: u64 = 8;
/// The remembered size of the largest batch shrinks by this part with each smaller batch.
const BATCHES_REMEMBERED: u64 = 64;
/// Number of spare nodes that are searched for one with fitting blocks.
const LOOKED_AT_MAX: usize = 8;
/// Deliveries after which spare nodes are freed that were not used since.
const DELIVERIES_WAITED: u64 = 8;

/// Nodes of one kind and class of capacity.
#[derive(Debug, Default)]
struct Class {
    nodes: Vec<NodeBox<TreeNode>>,
    /// The lowest number of nodes since the last check: that number was never used.
    unused: usize,
}

impl Class {
    /// Takes a node that a copy of `like` fits into if one is among the last few, otherwise the
    /// last.
    fn take(&mut self, like: &NodeBody, capacity: usize) -> Option<NodeBox<TreeNode>> {
        let last = self.nodes.len().checked_sub(1)?;
        let mut looked_at = self.nodes.iter().enumerate().rev().take(LOOKED_AT_MAX);
        let fitting = looked_at
            .find(|(_, node)| like.fits_into(&node.body, capacity))
            .map(|(position, _)| position);
        let node = self.nodes.swap_remove(fitting.unwrap_or(last));
        self.unused = self.unused.min(self.nodes.len());
        Some(node)
    }
}

/// Classes of leaves, then of inner nodes.
#[derive(Debug)]
struct Classes([Class; 2 * CLASSES]);

impl Default for Classes {
    fn default() -> Classes {
        Classes(std::array::from_fn(|_| Class::default()))
    }
}

impl Classes {
    fn of(&mut self, kind: &NodeBody, capacity: usize) -> &mut Class {
        let of_kind = match kind {
            NodeBody::Leaf(_) => 0,
            NodeBody::Inner(_) => CLASSES,
        };
        &mut self.0[of_kind + (capacity / SLOTS_IN_CLASS).min(CLASSES - 1)]
    }
}

/// Memory for the writer's next copies.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    classes: Classes,
    /// Heap bytes of all these nodes.
    bytes: u64,
    /// Heap bytes that the largest of the recent batches has replaced.
    batch_bytes: u64,
    deliveries: u64,
    /// Empty between two deliveries.
    pub(crate) delivery: Vec<NodeBox<TreeNode>>,
}

impl Spare {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes that a batch has replaced nodes of `bytes` heap bytes. Returns how many bytes may
    /// be kept from now on.
    pub(crate) fn note_batch(&mut self, bytes: u64) -> u64 {
        let faded = self.batch_bytes - self.batch_bytes / BATCHES_REMEMBERED;
        self.batch_bytes = bytes.max(faded);
        self.bytes_max()
    }

    fn bytes_max(&self) -> u64 {
        let wanted = self.batch_bytes.saturating_mul(BATCHES_KEPT);
        wanted.clamp(KEPT_BYTES_MIN, KEPT_BYTES_MAX)
    }

    /// A node of the kind of `like`, for `capacity` slots; its content is old.
    pub(crate) fn node(&mut self, like: &NodeBody, capacity: usize) -> Option<NodeBox<TreeNode>> {
        let node = self.classes.of(like, capacity).take(like, capacity)?;
        self.bytes -= node.heap_bytes();
        Some(node)
    }

    /// Sorts the delivery in.
    pub(crate) fn sort(&mut self) {
        self.deliveries += 1;
        if self.deliveries.is_multiple_of(DELIVERIES_WAITED) {
            self.drop_unused();
        }
        let bytes_max = self.bytes_max();
        let mut delivery = std::mem::take(&mut self.delivery);
        for node in delivery.drain(..) {
            let bytes = node.heap_bytes();
            if self.bytes + bytes > bytes_max || node.body.keys().has_long() {
                continue;
            }
            self.bytes += bytes;
            // As many as a copy of it asks for that is to take another key.
            let capacity = capacity_for(node.body.slots() + 1);
            self.classes.of(&node.body, capacity).nodes.push(node);
        }
        self.delivery = delivery;
    }

    /// Frees nodes that were not used since the last check, so that no class takes the room of
    /// the others for long.
    fn drop_unused(&mut self) {
        for class in &mut self.classes.0 {
            let dropped = class.nodes.drain(..class.unused);
            self.bytes -= dropped.map(|node| node.heap_bytes()).sum::<u64>();
            class.unused = class.nodes.len();
        }
    }
}
