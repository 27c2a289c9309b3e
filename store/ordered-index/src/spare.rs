//! Nodes and states that nothing reaches any more, kept to be used again.
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
//! when many changes are published together; `Writer::spare_bytes` says how much. A copy
//! takes only a node of the class it would allocate, so that a tree of recycled nodes is as
//! tight as one of new ones.
#![expect(
    clippy::vec_box,
    reason = "what is kept goes back into a tree as the box it is"
)]

use crate::link::Published;
use crate::node::{Body, Node};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots by which capacities of copied nodes are rounded up.
const SLOTS_IN_CLASS: usize = 8;
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
/// Most states that are kept. Their bytes are not counted: each has a list of at most 2 KiB.
const STATES_MAX: usize = 32;
/// Number of spare nodes that are searched for one with fitting bytes.
const LOOKED_AT_MAX: usize = 8;
/// Deliveries after which spare nodes are freed that were not used since.
const DELIVERIES_WAITED: u64 = 8;

/// Capacity that a copy of `slots` slots allocates.
pub(crate) fn capacity_for(slots: usize) -> usize {
    slots.next_multiple_of(SLOTS_IN_CLASS)
}

/// Fills `copy` with `items`, in the memory that it has if this is about `capacity` wide.
pub(crate) fn refill<T: Copy>(copy: &mut Vec<T>, items: &[T], capacity: usize) {
    copy.clear();
    reserve_about(copy, capacity);
    copy.extend_from_slice(items);
}

/// Gives an empty vector room for `capacity` items and little more.
pub(crate) fn reserve_about<T>(empty: &mut Vec<T>, capacity: usize) {
    if !fits(empty.capacity(), capacity) {
        *empty = Vec::with_capacity(capacity);
    }
}

/// Whether a capacity of `has` serves for `wanted` and wastes little.
fn fits(has: usize, wanted: usize) -> bool {
    has >= wanted && has - wanted <= wanted / 8 + SLOTS_IN_CLASS
}

/// Nodes of one kind and class of capacity.
#[derive(Debug, Default)]
struct Class {
    nodes: Vec<Box<Node>>,
    /// The lowest number of nodes since the last check: that number was never used.
    unused: usize,
}

impl Class {
    /// Takes a node with fitting bytes if it is among the last few, otherwise the last.
    fn take(&mut self, bytes: usize) -> Option<Box<Node>> {
        let last = self.nodes.len().checked_sub(1)?;
        let mut looked_at = self.nodes.iter().enumerate().rev().take(LOOKED_AT_MAX);
        let fitting = looked_at
            .find(|(_, node)| fits(node.body.keys().bytes_capacity(), bytes))
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
    fn of(&mut self, kind: &Body, capacity: usize) -> &mut Class {
        let of_kind = match kind {
            Body::Leaf(_) => 0,
            Body::Inner(_) => CLASSES,
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
    states: Vec<Box<Published>>,
    deliveries: u64,
    /// Empty between two deliveries.
    delivery: Vec<Box<Node>>,
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
    pub(crate) fn node(&mut self, like: &Body, capacity: usize) -> Option<Box<Node>> {
        let bytes = like.keys().bytes_wanted(capacity);
        let node = self.classes.of(like, capacity).take(bytes)?;
        self.bytes -= node.heap_bytes();
        Some(node)
    }

    /// A state with old content.
    pub(crate) fn state(&mut self) -> Option<Box<Published>> {
        self.states.pop()
    }

    /// Sorts the delivery in.
    fn sort(&mut self) {
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
            let capacity = node.body.capacity();
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

/// Unreachable nodes and states that the writer has not taken yet.
#[derive(Debug, Default)]
struct Pile {
    nodes: Vec<Box<Node>>,
    states: Vec<Box<Published>>,
}

/// Where the collector puts nodes and states that have become unreachable. No thread waits
/// for the lock: if it is taken, the collector frees them, and the writer looks again at the
/// next publish.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    pile: Mutex<Pile>,
    /// Heap bytes of the nodes in the pile; changes under the lock.
    bytes: AtomicU64,
    /// 0 before the first publish.
    bytes_max: AtomicU64,
}

impl Returned {
    /// Sets the limit of heap bytes of the nodes that are kept.
    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps `nodes`, which have `bytes` heap bytes, or frees them.
    pub(crate) fn put_nodes(&self, nodes: impl Iterator<Item = Box<Node>>, bytes: u64) {
        // Freeing takes time, so it is done without the lock.
        if let Ok(mut pile) = self.pile.try_lock()
            && self.bytes() + bytes <= self.bytes_max.load(Ordering::Relaxed)
        {
            pile.nodes.extend(nodes);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        } else {
            nodes.for_each(drop);
        }
    }

    /// Keeps the state, or frees it.
    pub(crate) fn put_state(&self, state: Box<Published>) {
        if let Ok(mut pile) = self.pile.try_lock()
            && pile.states.len() < STATES_MAX
        {
            pile.states.push(state);
        }
    }

    /// Moves everything into `spare`.
    pub(crate) fn move_to(&self, spare: &mut Spare) {
        if self.bytes() == 0 {
            return;
        }
        let Ok(mut pile) = self.pile.try_lock() else {
            return;
        };
        std::mem::swap(&mut pile.nodes, &mut spare.delivery);
        spare.states.append(&mut pile.states);
        self.bytes.store(0, Ordering::Relaxed);
        drop(pile);
        spare.states.truncate(STATES_MAX);
        spare.sort();
    }
}
