//! Blocks of an allocator that serves nothing else.
//!
//! ```text
//!   system ──► regions of 8 MiB ──► dlmalloc ──► blocks
//!          ◄── whole regions, when all their blocks are free
//! ```
//!
//! All but the first regions ask for huge pages. A look at a key meets a dozen pages that no other
//! look has met for long, and finding out where a small page lies takes about as long as
//! reading it, in a virtual machine longer.

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

/// Bytes of a region; a longer block has a longer one.
const REGION_BYTES: usize = 4 * HUGE_PAGE_BYTES;
/// As most processors have them; where they are larger, the system's pages stay small.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Regions with small pages, so that a small index takes little memory.
const SMALL_REGIONS: u32 = 2;
/// A smaller heap has no region ready, which would be a large part of it.
const BYTES_BEFORE_READY: usize = 8 * REGION_BYTES;

pub(super) const IS_OWN: bool = true;

pub(super) struct Blocks(Dlmalloc<Regions>);

impl Blocks {
    pub(super) const fn new() -> Blocks {
        Blocks(Dlmalloc::new_with_allocator(Regions {
            asked_for: Cell::new(0),
            bytes: Cell::new(0),
            next: Cell::new(NextRegion::Unwanted),
        }))
    }

    /// Whether the caller should make the next region and [`keep`](Blocks::keep) it.
    pub(super) fn begins_next_region(&self) -> bool {
        self.0.allocator().begins_next()
    }

    /// Has this region ready for when the heap grows. Returns it if it is not wanted any more.
    pub(super) fn keep(&self, made: Option<ReadyRegion>) -> Option<ReadyRegion> {
        self.0.allocator().keep(made)
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

/// Where the allocator gets memory from.
struct Regions {
    /// Regions so far.
    asked_for: Cell<u32>,
    /// Bytes of those that were not given back, without the next one.
    bytes: Cell<usize>,
    next: Cell<NextRegion>,
}

/// The region that the heap will grow into.
#[derive(Default)]
enum NextRegion {
    #[default]
    Unwanted,
    /// The heap has grown, and is large.
    Wanted,
    /// A thread makes it.
    Begun,
    Ready(ReadyRegion),
}

/// A region without blocks, all pages of which the system has cleared.
pub(super) struct ReadyRegion(*mut u8);

// SAFETY: memory that nothing else uses.
unsafe impl Send for ReadyRegion {}

impl ReadyRegion {
    /// Nothing may be locked: the system takes some milliseconds. `None` where it does not do
    /// this ahead of the first use, or has no memory.
    pub(super) fn new() -> Option<ReadyRegion> {
        let region = ReadyRegion(Regions::map(REGION_BYTES).ok()?);
        ask_for_huge_pages(region.0, REGION_BYTES);
        clear_all_pages(region.0, REGION_BYTES).then_some(region)
    }

    fn into_memory(self) -> *mut u8 {
        ManuallyDrop::new(self).0
    }
}

impl Drop for ReadyRegion {
    fn drop(&mut self) {
        Regions::unmap(self.0, REGION_BYTES);
    }
}

impl Regions {
    /// A mapping that begins with a huge page.
    fn map(bytes: usize) -> rustix::io::Result<*mut u8> {
        let longer = bytes + HUGE_PAGE_BYTES;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping is no other object's memory.
        let start = unsafe { mmap_anonymous(null_mut(), longer, protection, flags)? }.cast::<u8>();
        let before = start.align_offset(HUGE_PAGE_BYTES);
        let region = start.wrapping_add(before);
        Self::unmap(start, before);
        Self::unmap(region.wrapping_add(bytes), HUGE_PAGE_BYTES - before);
        Ok(region)
    }

    /// The memory of a new region: the one that is ready, if that has its size.
    fn take(&self, bytes: usize) -> rustix::io::Result<*mut u8> {
        let number = self.asked_for.get();
        self.asked_for.set(number.saturating_add(1));
        if bytes == REGION_BYTES
            && let Some(ready) = self.take_next()
        {
            return Ok(ready.into_memory());
        }
        let region = Regions::map(bytes)?;
        if number >= SMALL_REGIONS {
            ask_for_huge_pages(region, bytes);
        }
        Ok(region)
    }

    fn take_next(&self) -> Option<ReadyRegion> {
        let next = self.next.take();
        let is_begun = matches!(next, NextRegion::Begun);
        if is_begun {
            self.next.set(NextRegion::Begun);
        } else if self.bytes.get() >= BYTES_BEFORE_READY {
            self.next.set(NextRegion::Wanted);
        }
        match next {
            NextRegion::Ready(region) => Some(region),
            _ => None,
        }
    }

    /// True for one caller after the heap has grown.
    fn begins_next(&self) -> bool {
        let next = self.next.take();
        let is_wanted = matches!(next, NextRegion::Wanted);
        self.next
            .set(if is_wanted { NextRegion::Begun } else { next });
        is_wanted
    }

    /// The heap may have shrunk since this region was begun.
    fn keep(&self, made: Option<ReadyRegion>) -> Option<ReadyRegion> {
        match (self.next.take(), made) {
            (NextRegion::Begun, Some(region)) => {
                self.next.set(NextRegion::Ready(region));
                None
            }
            (NextRegion::Begun, None) => None,
            (next, made) => {
                self.next.set(next);
                made
            }
        }
    }

    /// Gives a part of a mapping back. If the system refuses, it stays mapped and takes no memory.
    fn unmap(start: *mut u8, bytes: usize) -> bool {
        // SAFETY: a part of a mapping of ours in which there is no block.
        bytes > 0 && unsafe { munmap(start.cast::<c_void>(), bytes) }.is_ok()
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(region: *mut u8, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    // SAFETY: the region is ours. Where the system refuses, it has small pages.
    let _ = unsafe { madvise(region.cast::<c_void>(), bytes, Advice::LinuxHugepage) };
}

/// Whether the system has cleared these pages now, as Linux 5.14 and later do, instead of at
/// their first use.
#[cfg(target_os = "linux")]
fn clear_all_pages(region: *mut u8, bytes: usize) -> bool {
    use rustix::mm::{Advice, madvise};
    // SAFETY: the region is ours, and nothing is in it.
    unsafe { madvise(region.cast::<c_void>(), bytes, Advice::LinuxPopulateWrite) }.is_ok()
}

#[cfg(not(target_os = "linux"))]
fn clear_all_pages(_: *mut u8, _: usize) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: *mut u8, _: usize) {}

// SAFETY: a region is readable and writable memory that nothing else uses.
unsafe impl Allocator for Regions {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let bytes = size.next_multiple_of(HUGE_PAGE_BYTES).max(REGION_BYTES);
        let number = self.asked_for.get();
        let Ok(region) = self.take(bytes) else {
            return (null_mut(), 0, 0);
        };
        self.bytes.set(self.bytes.get() + bytes);
        // Bit 0 has a meaning. Regions with equal flags that touch would become one, which is given
        // back only when both are unused.
        (region, bytes, number << 1)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    /// Regions are given back whole: the end of the newest one is needed again soon.
    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, region: *mut u8, bytes: usize) -> bool {
        self.next.set(NextRegion::Unwanted);
        let is_back = Regions::unmap(region, bytes);
        let taken = self.bytes.get();
        self.bytes.set(taken - if is_back { bytes } else { 0 });
        is_back
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
