//! The state that readers see: the published trees of the index and the numbers that belong to them.
//!
//! The applying thread stores everything here; all other threads only look.

use crate::Snapshot;
use crate::state_hash::StateHashes;
use ordered_index::Reader;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) reader: Reader,
    applied_index: AtomicU64,
    applied_term: AtomicU64,
    /// Heap bytes of the index after the last publish.
    index_bytes: AtomicU64,
    /// Counts the snapshots installed since open: each begins another state.
    /// Raised before that is published.
    generation: AtomicU64,
    /// The hashes after the last batches.
    pub(crate) hashes: StateHashes,
}

impl Published {
    pub(crate) fn new(reader: Reader) -> Published {
        Published {
            reader,
            applied_index: AtomicU64::new(0),
            applied_term: AtomicU64::new(0),
            index_bytes: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            hashes: StateHashes::default(),
        }
    }

    /// Takes note of what the trees that were just published belong to.
    pub(crate) fn note(&self, applied_index: u64, applied_term: u64, index_bytes: u64) {
        self.applied_index.store(applied_index, Ordering::Release);
        self.applied_term.store(applied_term, Ordering::Release);
        self.index_bytes.store(index_bytes, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            trees: self.reader.pin(),
        }
    }

    pub(crate) fn applied_index(&self) -> u64 {
        self.applied_index.load(Ordering::Acquire)
    }

    pub(crate) fn applied_term(&self) -> u64 {
        self.applied_term.load(Ordering::Acquire)
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// The present generation: odd while another state takes the place of this one. If it is read
    /// after a pin, the pinned state belongs to it or to an earlier one; if it is even and the same
    /// before and after a pin, the pinned state belongs to it.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Before the trees of another state are published.
    pub(crate) fn begin_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.hashes.clear();
    }

    /// After they were published.
    pub(crate) fn end_change_of_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}
