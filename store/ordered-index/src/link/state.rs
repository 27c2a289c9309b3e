//! The state that readers see, and the release of the one before it.
//!
//! ```text
//!   publish       state 7 -> 8; state 7 takes over what batch 8 has retired
//!   the collector releases state 7 with these nodes: the writer can use their memory
//! ```
//!
//! The rules are in the module above.

use super::{Retired, Unpublished};
use crate::returned::{Returned, SpareStates};
use crate::tree::Tree;
use crossbeam_epoch::{self as epoch, Atomic, Guard, Owned, Shared};
use std::mem;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Once more garbage than this waits for the collector, one publish in [`URGED_EVERY`] makes
/// it take a step.
const GARBAGE_BYTES_TOLERATED: u64 = 128 << 10;
/// A step looks at each writer and each thread that has ever read, which would cost every
/// publish too much.
const URGED_EVERY: u64 = 8;
/// A publish that replaces at least this much makes the collector take a step, too: looking at
/// all threads costs little beside such a batch, and memory that comes back soon is still in
/// the processor's caches.
const BATCH_BYTES_PRESSING: u64 = GARBAGE_BYTES_TOLERATED / 2;

/// A state that has retired more nodes is not used again: its list is too long to keep.
const LINKS_KEPT_MAX: usize = 256;

/// One consistent state of all trees; what readers see of it never changes.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) mark: u64,
    pub(crate) trees: Vec<Tree>,
    /// Nodes that are released with this state. Set by the publish that replaces it; no
    /// reader looks here, so the lock is always free.
    retired: Mutex<Retired>,
}

impl Published {
    fn fill(&mut self, mark: u64, working: &[Tree]) {
        let share = |tree: &Tree| Tree {
            // SAFETY: the batch ends with this publish, so the working state's
            // links are to published nodes from now on (rule 2).
            root: unsafe { tree.root.share() },
            len: tree.len,
        };
        self.mark = mark;
        self.trees.clear();
        self.trees.extend(working.iter().map(share));
    }

    /// Takes over what the batch retired, and leaves the batch an empty list.
    fn retire(&self, retired: &mut Retired) -> u64 {
        let bytes = retired.bytes;
        let mut slot = self.retired.try_lock().expect("only the writer retires");
        assert!(slot.links.is_empty(), "a state is replaced once");
        mem::swap(&mut *slot, retired);
        bytes
    }

    /// # Safety
    /// No reader can reach this state any more, nor any other state that holds
    /// the nodes retired with it.
    unsafe fn release(mut self: Box<Published>, memory: &Memory) {
        let retired = self.retired.get_mut().expect("only the writer retires");
        let bytes = mem::take(&mut retired.bytes);
        // SAFETY: the caller's promise: these are the last links (rule 4).
        let nodes = retired.links.drain(..).map(|link| unsafe { link.free() });
        memory.returned.put_nodes(nodes, bytes);
        memory.garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if retired.links.capacity() <= LINKS_KEPT_MAX {
            memory.returned.put_state(self);
        }
    }
}

/// Memory that is in no tree of any state.
#[derive(Debug, Default)]
struct Memory {
    /// Heap bytes of retired nodes that are not released yet.
    garbage_bytes: AtomicU64,
    returned: Returned,
}

/// The state that readers see: one pointer, replaced by one store.
#[derive(Debug)]
pub(crate) struct Current {
    /// Never null before `drop`.
    state: Atomic<Published>,
    memory: Arc<Memory>,
}

impl Current {
    /// Publishes the first state.
    pub(crate) fn new(working: &[Tree], batch: &mut Unpublished) -> Current {
        assert!(
            batch.retired.links.is_empty(),
            "a first batch has nothing to retire"
        );
        batch.number += 1;
        let mut state = Published::default();
        state.fill(0, working);
        Current {
            state: Atomic::new(state),
            memory: Arc::default(),
        }
    }

    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.memory.garbage_bytes.load(Ordering::Relaxed)
    }

    /// Heap bytes of nodes that were released and wait for the writer.
    pub(crate) fn returned_bytes(&self) -> u64 {
        self.memory.returned.bytes()
    }

    /// Ends the batch: readers that pin from now on see the working state.
    pub(crate) fn publish(
        &self,
        mark: u64,
        working: &[Tree],
        batch: &mut Unpublished,
        states: &mut SpareStates,
    ) {
        let guard = batch.participant.pin();
        if batch.has_urged {
            // Before a new function is deferred, which the flush would seal in a bag of its own.
            guard.flush();
        }
        self.memory.returned.move_to(&mut batch.spare, states);
        batch.number += 1;
        let mut state = states.take().unwrap_or_default();
        state.fill(mark, working);
        // Release: a reader that sees the pointer sees the nodes behind it.
        let old = self
            .state
            .swap(Owned::from(state), Ordering::AcqRel, &guard);
        // SAFETY: the guard was pinned while the state was current.
        let bytes = unsafe { old.deref() }.retire(&mut batch.retired);
        let garbage_bytes = &self.memory.garbage_bytes;
        let waiting = garbage_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let memory = Arc::clone(&self.memory);
        // Two words, which the collector keeps without an allocation.
        // SAFETY: rule 4: neither the old state nor the retired nodes can be
        // reached from the state just published, and each is retired once.
        unsafe { guard.defer_unchecked(move || old.into_owned().into_box().release(&memory)) };
        self.memory
            .returned
            .set_bytes_max(batch.spare.note_batch(bytes));
        let is_due = batch.number.is_multiple_of(URGED_EVERY) || bytes >= BATCH_BYTES_PRESSING;
        batch.has_urged = is_due && waiting > GARBAGE_BYTES_TOLERATED;
        if batch.has_urged {
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
        // SAFETY: writer and readers are gone, so this state cannot be pinned any
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

/// A published state that is not released while this lives.
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
