//! The memory of nodes: one heap for all trees of the process, whichever thread asks.
//!
//! ```text
//!   thread 1 copies a node ──►  ┌──────┐  ◄── thread 2 copies another
//!   thread 3 frees an old one ► │ heap │      into the memory of the old one
//!                               └──────┘
//! ```
//!
//! The threads that change a tree are not the ones that free what was replaced. Allocators
//! for general use keep memory for each thread, and what was freed into the memory of one is not
//! used by another: a tree that was loaded by one thread and is overwritten by four others took
//! twice its bytes (docs/decisions/0039-memory-of-nodes.md).
//!
//! All blocks are of one allocator, which joins neighbours that are free, behind a lock. It is
//! held for some ten nanoseconds. The system clears memory when it is first used, and all threads
//! would wait for that: so a thread that has taken a region of a large heap makes the next one
//! ready, without the lock.

#[cfg(all(
    any(target_os = "linux", target_os = "macos"),
    not(any(miri, feature = "program-heap"))
))]
#[path = "heap/own.rs"]
mod blocks;
#[cfg(not(all(
    any(target_os = "linux", target_os = "macos"),
    not(any(miri, feature = "program-heap"))
)))]
#[path = "heap/of_the_program.rs"]
mod blocks;

use blocks::{Blocks, ReadyRegion};
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

/// The part of the heap that is in use in this process ([`heap_use`]).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct HeapUse {
    /// Whether the nodes have a heap of their own; if not, they are in the program's.
    pub is_own: bool,
    /// Bytes of all blocks, as they were requested.
    pub bytes: u64,
    /// Blocks that were allocated since the process began.
    pub allocations: u64,
}

/// Bytes in the blocks of all trees of this process, those of replaced and spare nodes included.
pub fn heap_use() -> HeapUse {
    lock().in_use
}

/// The allocator, and what was asked of it.
struct Heap {
    blocks: Blocks,
    in_use: HeapUse,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap {
    blocks: Blocks::new(),
    in_use: HeapUse {
        is_own: blocks::IS_OWN,
        bytes: 0,
        allocations: 0,
    },
});

fn lock() -> MutexGuard<'static, Heap> {
    HEAP.lock().expect("no thread panics in the heap")
}

/// Unlocks the heap. If it has just taken a region, this thread makes the next one.
fn unlock(heap: MutexGuard<'_, Heap>) {
    let begins_next_region = heap.blocks.begins_next_region();
    drop(heap);
    if begins_next_region {
        let made = ReadyRegion::new();
        // A region that is not wanted goes back to the system when the lock is released.
        let _unwanted = lock().blocks.keep(made);
    }
}

/// A new block; its content is arbitrary. Like the standard library, this ends the process where
/// there is no memory.
///
/// # Safety
/// The layout has at least one byte.
pub(crate) unsafe fn allocate(layout: Layout) -> NonNull<u8> {
    let mut heap = lock();
    heap.in_use.bytes += layout.size() as u64;
    heap.in_use.allocations += 1;
    // SAFETY: the caller's promise.
    let block = unsafe { heap.blocks.allocate(layout) };
    unlock(heap);
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// The block came from here with this layout, and is not used any more.
pub(crate) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    let mut heap = lock();
    heap.in_use.bytes -= layout.size() as u64;
    // SAFETY: the caller's promise.
    unsafe { heap.blocks.free(block.as_ptr(), layout) }
}

/// Moves a block to one of another size, in place where there is room.
///
/// # Safety
/// As [`free`], and `bytes` is not 0 and fits a layout.
pub(crate) unsafe fn resize(block: NonNull<u8>, layout: Layout, bytes: usize) -> NonNull<u8> {
    let mut heap = lock();
    heap.in_use.bytes += bytes as u64;
    heap.in_use.bytes -= layout.size() as u64;
    heap.in_use.allocations += 1;
    // SAFETY: the caller's promise.
    let moved = unsafe { heap.blocks.resize(block.as_ptr(), layout, bytes) };
    unlock(heap);
    let align = layout.align();
    NonNull::new(moved).unwrap_or_else(|| match Layout::from_size_align(bytes, align) {
        Ok(layout) => handle_alloc_error(layout),
        Err(error) => panic!("{bytes} bytes: {error}"),
    })
}
