//! Nodes and states that have become unreachable, on their way from the collector to the writer
//! (the picture is in `spare.rs`).
#![expect(
    clippy::vec_box,
    reason = "what is kept is used again as the box it is"
)]

use crate::link::Published;
use crate::node::TreeNode;
use crate::node_vec::NodeBox;
use crate::spare::Spare;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most states that are kept. Their bytes are not counted: each has a list of at most 2 KiB.
const STATES_MAX: usize = 32;

/// The writer's states with old content.
#[derive(Debug, Default)]
pub(crate) struct SpareStates(Vec<Box<Published>>);

impl SpareStates {
    pub(crate) fn take(&mut self) -> Option<Box<Published>> {
        self.0.pop()
    }
}

/// Unreachable nodes and states that the writer has not taken yet.
#[derive(Debug, Default)]
struct Pile {
    nodes: Vec<NodeBox<TreeNode>>,
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
    pub(crate) fn put_nodes(&self, nodes: impl Iterator<Item = NodeBox<TreeNode>>, bytes: u64) {
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

    /// Moves everything into `spare` and `states`.
    pub(crate) fn move_to(&self, spare: &mut Spare, states: &mut SpareStates) {
        if self.bytes() == 0 {
            return;
        }
        let Ok(mut pile) = self.pile.try_lock() else {
            return;
        };
        std::mem::swap(&mut pile.nodes, &mut spare.delivery);
        states.0.append(&mut pile.states);
        self.bytes.store(0, Ordering::Relaxed);
        drop(pile);
        states.0.truncate(STATES_MAX);
        spare.sort();
    }
}
