//! Blocks of the program's allocator: on systems that `own.rs` does not know, and for tools that
//! find wrong uses of memory.

use std::alloc::{Layout, alloc, dealloc, realloc};

pub(super) const IS_OWN: bool = false;

pub(super) struct Blocks;

/// Memory ahead is that allocator's concern.
pub(super) struct ReadyRegion;

impl ReadyRegion {
    pub(super) fn new() -> Option<ReadyRegion> {
        None
    }
}

impl Blocks {
    pub(super) const fn new() -> Blocks {
        Blocks
    }

    pub(super) fn begins_next_region(&self) -> bool {
        false
    }

    pub(super) fn keep(&self, made: Option<ReadyRegion>) -> Option<ReadyRegion> {
        made
    }

    /// # Safety
    /// As `GlobalAlloc::alloc`.
    pub(super) unsafe fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { alloc(layout) }
    }

    /// # Safety
    /// As `GlobalAlloc::dealloc`.
    pub(super) unsafe fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(block, layout) }
    }

    /// # Safety
    /// As `GlobalAlloc::realloc`.
    pub(super) unsafe fn resize(
        &mut self,
        block: *mut u8,
        layout: Layout,
        bytes: usize,
    ) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { realloc(block, layout, bytes) }
    }
}
