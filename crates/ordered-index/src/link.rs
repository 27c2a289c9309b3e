//! Who owns a node, and when it may go: all `unsafe` of this crate.
//!
//! ```text
//!     published state 7                working state (becomes 8)
//!          root A                           root A'          born in batch 8
//!         /      \                         /       \
//!        B        C  <---- shared ------- C         B'       born in batch 8
//!
//!     retired by batch 8: A, B  -- freed when no reader can still hold state 7
//! ```
//!
//! A link is a plain pointer; copying a node copies its links and touches no
//! reference count, because a count would cost a cache miss per child.
//! What makes that sound are four rules:
//!
//! 1. A node born in the running batch is reachable from the writer's working
//!    trees alone, through one single link. It is changed in place.
//! 2. An older node is never changed. The writer replaces it by a copy and
//!    retires it.
//! 3. A link is reached only through `&Writer`, through a pinned `Snapshot`, or
//!    through a node reached so. (`Link` cannot be cloned outside this file.)
//! 4. A retired node is freed by the epoch collector, after the state that
//!    replaced it has been published and every reader pinned before that has
//!    gone; a node of the running batch is freed at once when it is dropped.
//!
//! From 3 and 4 follows that whoever borrows a link may borrow its node for as
//! long, which is what `Deref` says.

use crate::fanout::Fanout;
use crate::keys::copy_with_room;
use crate::node::{Body, Inner, Leaf, Node};
use crate::tree::Tree;
use crossbeam_epoch::{self as epoch, Atomic, Guard, Owned, Shared};
use std::mem;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The collector is urged on once so much garbage waits for it.
const GARBAGE_BYTES_TOLERATED: u64 = 256 << 10;

/// A pointer to a node; see the rules above. Dropping it frees nothing.
#[derive(Debug)]
pub(crate) struct Link(NonNull<Node>);

// SAFETY: a node is plain data (integers, vectors, links). Shared access only
// reads it (rules 1 and 2), and a node may be freed on any thread.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

impl Deref for Link {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: rules 3 and 4: the node outlives every borrow of a link to it;
        // rule 1: nobody holds a mutable reference while the link is borrowed.
        unsafe { self.0.as_ref() }
    }
}

impl Link {
    fn to_new(node: Node) -> Link {
        Link(NonNull::from(Box::leak(Box::new(node))))
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
    unsafe fn free(self) -> Node {
        // SAFETY: the pointer came from `Box::leak`; the caller holds the last link.
        *unsafe { Box::from_raw(self.0.as_ptr()) }
    }

    fn is_fresh(&self, batch: &Batch) -> bool {
        self.born == batch.number
    }

    /// Changes the node, in place when this batch made it, else a copy that
    /// takes its place (with room for `spare` more slots).
    pub(crate) fn edit<R>(
        &mut self,
        batch: &mut Batch,
        spare: usize,
        change: impl FnOnce(&mut Node, &mut Batch) -> R,
    ) -> R {
        if !self.is_fresh(batch) {
            let copy = batch.link(copy_body(self, spare));
            mem::replace(self, copy).discard(batch);
        }
        assert!(self.is_fresh(batch), "a published node must not change");
        // SAFETY: rule 1: the node is fresh, so this borrow of its one link is exclusive.
        let node = unsafe { self.0.as_mut() };
        let before = node.heap_bytes();
        let result = change(node, batch);
        batch.live_bytes = batch.live_bytes + node.heap_bytes() - before;
        result
    }

    /// The working state no longer contains this node (its children it may).
    pub(crate) fn discard(self, batch: &mut Batch) {
        let bytes = self.heap_bytes();
        batch.live_bytes -= bytes;
        if self.is_fresh(batch) {
            // SAFETY: rule 1: no reader has seen it, and its one link ends here.
            drop(unsafe { self.free() });
        } else {
            batch.retired_bytes += bytes;
            batch.retired.push(self);
        }
    }

    /// The same, but its content goes on living elsewhere.
    pub(crate) fn take(self, batch: &mut Batch) -> Body {
        let body = copy_body(&self, 0);
        self.discard(batch);
        body
    }

    /// The working state no longer contains anything below this link.
    pub(crate) fn discard_all(self, batch: &mut Batch) {
        if let Body::Inner(inner) = &self.body {
            for child in &inner.children {
                // SAFETY: the parent that holds the other link is discarded below.
                unsafe { child.share() }.discard_all(batch);
            }
        }
        self.discard(batch);
    }

    /// # Safety
    /// As `free`, for every node below; `keep` is asked before each descent.
    unsafe fn free_all(self, keep: &impl Fn(&Node) -> bool) {
        if keep(&self) {
            return;
        }
        // SAFETY: the caller's promise.
        let node = unsafe { self.free() };
        if let Body::Inner(inner) = node.body {
            // SAFETY: the caller's promise covers the children.
            inner
                .children
                .into_iter()
                .for_each(|child| unsafe { child.free_all(keep) });
        }
    }
}

/// A copy whose children are shared. Callers discard the original, so that
/// each child stays reachable by one link of the working state.
fn copy_body(node: &Node, spare: usize) -> Body {
    match &node.body {
        Body::Leaf(leaf) => Body::Leaf(Leaf {
            keys: leaf.keys.copy(spare),
            entries: copy_with_room(&leaf.entries, spare),
        }),
        Body::Inner(inner) => Body::Inner(Inner {
            separators: inner.separators.copy(0),
            // SAFETY: both callers discard the node that holds the other links.
            children: inner
                .children
                .iter()
                .map(|child| unsafe { child.share() })
                .collect(),
            counts: inner.counts.clone(),
        }),
    }
}

/// What the writer has done since the last publish.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Counts publishes; nodes that bear it are the writer's own.
    number: u64,
    /// Nodes of older batches that the working state no longer contains.
    retired: Vec<Link>,
    /// Heap bytes of `retired`.
    retired_bytes: u64,
    /// Heap bytes of all nodes in the working state.
    pub(crate) live_bytes: u64,
    pub(crate) fanout: Fanout,
}

impl Batch {
    pub(crate) fn new(fanout: Fanout) -> Batch {
        Batch {
            number: 1,
            retired: Vec::new(),
            retired_bytes: 0,
            live_bytes: 0,
            fanout,
        }
    }

    /// A link to a new node with this content.
    pub(crate) fn link(&mut self, body: Body) -> Link {
        let node = Node {
            born: self.number,
            body,
        };
        self.live_bytes += node.heap_bytes();
        Link::to_new(node)
    }

    /// Frees what was never published. The working trees must not be used any more.
    pub(crate) fn abandon(&mut self, trees: Vec<Tree>) {
        let number = self.number;
        for tree in trees {
            // SAFETY: rule 1 for the fresh nodes; older ones are kept, and a node
            // that is not fresh has no fresh child.
            unsafe { tree.root.free_all(&|node| node.born != number) };
        }
    }
}

/// One consistent state of all trees; never changed once published.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) mark: u64,
    pub(crate) trees: Vec<Tree>,
}

impl Published {
    fn of(mark: u64, working: &[Tree]) -> Published {
        let share = |tree: &Tree| Tree {
            // SAFETY: the batch ends with this publish, so the working state's
            // links are to published nodes from now on (rule 2).
            root: unsafe { tree.root.share() },
            len: tree.len,
        };
        Published {
            mark,
            trees: working.iter().map(share).collect(),
        }
    }
}

/// The state that readers see: one pointer, replaced by one store.
#[derive(Debug)]
pub(crate) struct Current {
    /// Never null before `drop`.
    state: Atomic<Published>,
    /// Heap bytes of retired nodes that are not freed yet.
    garbage_bytes: Arc<AtomicU64>,
}

impl Current {
    /// Publishes the first state.
    pub(crate) fn new(working: &[Tree], batch: &mut Batch) -> Current {
        assert!(
            batch.retired.is_empty(),
            "a first batch has nothing to retire"
        );
        batch.number += 1;
        Current {
            state: Atomic::new(Published::of(0, working)),
            garbage_bytes: Arc::default(),
        }
    }

    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.garbage_bytes.load(Ordering::Relaxed)
    }

    /// Ends the batch: readers that pin from now on see the working state.
    pub(crate) fn publish(&self, mark: u64, working: &[Tree], batch: &mut Batch) {
        let guard = epoch::pin();
        batch.number += 1;
        let state = Owned::new(Published::of(mark, working));
        // Release: a reader that sees the pointer sees the nodes behind it.
        let old = self.state.swap(state, Ordering::AcqRel, &guard);
        let retired = mem::take(&mut batch.retired);
        let bytes = mem::take(&mut batch.retired_bytes);
        let waiting = self.garbage_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let garbage_bytes = Arc::clone(&self.garbage_bytes);
        // SAFETY: rule 4: neither the old state nor the retired nodes can be
        // reached from the state just published, and each is retired once.
        unsafe {
            guard.defer_unchecked(move || {
                drop(old.into_owned());
                retired.into_iter().for_each(|link| drop(link.free()));
                garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
            });
        }
        if waiting > GARBAGE_BYTES_TOLERATED {
            guard.flush();
        }
    }

    /// Pins the newest state: two stores, a fence and a load, no loop.
    #[inline]
    pub(crate) fn pin(&self) -> Pinned {
        let guard = epoch::pin();
        let state = self.state.load(Ordering::Acquire, &guard).as_raw();
        Pinned {
            state: NonNull::new(state.cast_mut())
                .expect("a state is published before the first pin"),
            _guard: guard,
        }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let guard = epoch::pin();
        let state = self.state.swap(Shared::null(), Ordering::AcqRel, &guard);
        // SAFETY: writer and readers are gone, so nobody can pin this state any
        // more; snapshots that outlive them hold the collector back.
        unsafe {
            guard.defer_unchecked(move || {
                let state = *state.into_owned().into_box();
                state
                    .trees
                    .into_iter()
                    .for_each(|tree| tree.root.free_all(&|_| false));
            });
        }
        guard.flush();
    }
}

/// A published state that cannot go while this lives.
pub(crate) struct Pinned {
    state: NonNull<Published>,
    /// Keeps the state; also keeps `Pinned` on its thread.
    _guard: Guard,
}

impl Deref for Pinned {
    type Target = Published;

    #[inline]
    fn deref(&self) -> &Published {
        // SAFETY: the state was current when the guard was already pinned, so it
        // is not freed before the guard goes (rule 4).
        unsafe { self.state.as_ref() }
    }
}
