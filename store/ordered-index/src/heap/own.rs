//! Blocks of an allocator that no one else in the process uses.

use dlmalloc::Dlmalloc;
use std::alloc::Layout;

/// Bytes that the system is asked for at once, at least.
const GRANULARITY: usize = 1 << 20;

pub(super) struct Blocks(Dlmalloc);

impl Blocks {
    pub(super) const fn new() -> Blocks {
        let mut heap = Dlmalloc::new();
        assert!(heap.set_granularity(GRANULARITY), "a power of two");
        Blocks(heap)
    }

    /// # Safety
    /// As `GlobalAlloc::alloc`.
    pub(super) unsafe fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.malloc(layout.size(), layout.align()) }
    }

    /// # Safety
    /// As `GlobalAlloc::dealloc`.
    pub(super) unsafe fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(block, layout.size(), layout.align()) }
    }

    /// # Safety
    /// As `GlobalAlloc::realloc`.
    pub(super) unsafe fn resize(
        &mut self,
        block: *mut u8,
        layout: Layout,
        bytes: usize,
    ) -> *mut u8 {
        let (old_bytes, align) = (layout.size(), layout.align());
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(block, old_bytes, align, bytes) }
    }
}
