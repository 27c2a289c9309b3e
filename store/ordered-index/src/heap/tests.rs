use super::*;
use crate::heap;
use environment::randomness::Random;
use std::sync::atomic::{AtomicBool, Ordering};

/// A block with a content that depends on its number.
struct Filled {
    block: *mut u8,
    layout: Layout,
    number: u8,
}

impl Filled {
    fn new(blocks: &mut Blocks, bytes: usize, number: u8) -> Filled {
        let layout = Layout::from_size_align(bytes, 8).unwrap();
        // SAFETY: the layout has bytes.
        let block = unsafe { blocks.allocate(layout) };
        assert!(!block.is_null() && block.addr().is_multiple_of(8));
        let mut filled = Filled {
            block,
            layout,
            number,
        };
        filled.content().fill(number);
        filled
    }

    fn content(&mut self) -> &mut [u8] {
        // SAFETY: a block of this layout that only this value has.
        unsafe { std::slice::from_raw_parts_mut(self.block, self.layout.size()) }
    }

    fn check(&mut self, bytes: usize) {
        let number = self.number;
        let mut content = self.content()[..bytes].iter();
        assert!(content.all(|&byte| byte == number));
    }

    fn resize(&mut self, blocks: &mut Blocks, bytes: usize) {
        // SAFETY: the block is of this layout.
        self.block = unsafe { blocks.resize(self.block, self.layout, bytes) };
        let kept = bytes.min(self.layout.size());
        self.layout = Layout::from_size_align(bytes, 8).unwrap();
        self.check(kept);
        let number = self.number;
        self.content().fill(number);
    }

    fn free(mut self, blocks: &mut Blocks) {
        self.check(self.layout.size());
        // SAFETY: the block is of this layout.
        unsafe { blocks.free(self.block, self.layout) };
    }
}

fn region_bytes(blocks: &Blocks) -> usize {
    blocks.0.allocator().bytes.get()
}

#[test]
fn blocks_keep_their_content_while_others_come_and_go() {
    let mut random = Random::from_seed(5);
    let (mut blocks, mut all) = (Blocks::new(), Vec::<Filled>::new());
    for number in 0..30_000_u32 {
        // Some are longer than a region.
        let is_large = number.is_multiple_of(1_000);
        let bytes = 1 << random.below(if is_large { 25 } else { 12 });
        let bytes = bytes + random.below(bytes as u64) as usize;
        let chosen = random.below(all.len().max(1) as u64) as usize;
        match random.below(3) {
            0 if all.len() > 500 => all.swap_remove(chosen).free(&mut blocks),
            1 if !all.is_empty() => all[chosen].resize(&mut blocks, bytes),
            _ => all.push(Filled::new(&mut blocks, bytes, number as u8)),
        }
    }
    all.into_iter().for_each(|filled| filled.free(&mut blocks));
}

#[test]
fn regions_go_back_when_their_blocks_are_free() {
    let (mut blocks, mut all) = (Blocks::new(), Vec::new());
    for round in 0..3 {
        all.extend((0..60_000_u32).map(|number| Filled::new(&mut blocks, 1_000, number as u8)));
        let taken = region_bytes(&blocks);
        assert!(taken >= 60_000_000, "round {round}: {taken}");
        all.drain(..)
            .for_each(|filled: Filled| filled.free(&mut blocks));
        let left = region_bytes(&blocks);
        assert!(left <= 3 * REGION_BYTES, "round {round}: {left} of {taken}");
    }
}

/// A large heap that has just grown, and its blocks.
struct Grown {
    blocks: Blocks,
    all: Vec<Filled>,
}

impl Grown {
    fn new() -> Grown {
        let mut grown = Grown {
            blocks: Blocks::new(),
            all: Vec::new(),
        };
        grown.grow();
        grown
    }

    /// Adds blocks until the heap has grown.
    fn grow(&mut self) {
        while !self.blocks.begins_next_region() {
            self.add(100_000);
            assert!(self.all.len() < 10_000, "no region was asked for");
        }
    }

    fn add(&mut self, bytes: usize) {
        let number = self.all.len() as u8;
        self.all.push(Filled::new(&mut self.blocks, bytes, number));
    }

    fn has_region_ready(&self) -> bool {
        is_ready(&self.blocks)
    }

    fn free_all(&mut self) {
        let all = self.all.drain(..);
        all.for_each(|filled| filled.free(&mut self.blocks));
    }
}

fn is_ready(blocks: &Blocks) -> bool {
    let next = &blocks.0.allocator().next;
    let region = next.take();
    let is_ready = matches!(region, NextRegion::Ready(_));
    next.set(region);
    is_ready
}

/// `None` where the system does not clear pages ahead, and there is nothing to test.
fn ready_region() -> Option<ReadyRegion> {
    let region = ReadyRegion::new();
    if region.is_none() {
        eprintln!("skipped: this system does not clear pages before their first use");
    }
    region
}

#[test]
fn a_large_heap_grows_into_the_region_that_was_made() {
    let Some(region) = ready_region() else { return };
    let memory = region.0.addr()..region.0.addr() + REGION_BYTES;
    let mut grown = Grown::new();
    let bytes = region_bytes(&grown.blocks);
    assert_eq!(bytes, BYTES_BEFORE_READY + REGION_BYTES);
    assert!(grown.blocks.keep(Some(region)).is_none());
    grown.grow();
    assert_eq!(region_bytes(&grown.blocks), bytes + REGION_BYTES);
    assert!(memory.contains(&grown.all.last().unwrap().block.addr()));
    grown.free_all();
}

#[test]
fn one_region_is_made_at_a_time() {
    let mut grown = Grown::new();
    for _ in 0..300 {
        grown.add(100_000);
        assert!(!grown.blocks.begins_next_region());
    }
    assert!(region_bytes(&grown.blocks) > BYTES_BEFORE_READY + 3 * REGION_BYTES);
    // Making it failed: the next growth wants one again.
    assert!(grown.blocks.keep(None).is_none());
    grown.grow();
    grown.free_all();
}

#[test]
fn the_region_that_is_ready_goes_back_when_the_heap_shrinks() {
    let Some(region) = ready_region() else { return };
    let mut grown = Grown::new();
    grown.blocks.keep(Some(region));
    assert!(grown.has_region_ready());
    grown.free_all();
    assert!(!grown.has_region_ready());
}

#[test]
fn a_region_that_was_begun_before_the_heap_shrank_is_not_kept() {
    let Some(region) = ready_region() else { return };
    let mut grown = Grown::new();
    grown.free_all();
    assert!(grown.blocks.keep(Some(region)).is_some());
    assert!(!grown.has_region_ready());
}

#[test]
fn a_block_longer_than_a_region_leaves_the_one_that_is_ready() {
    let Some(region) = ready_region() else { return };
    let mut grown = Grown::new();
    grown.blocks.keep(Some(region));
    grown.add(2 * REGION_BYTES);
    assert!(!grown.blocks.begins_next_region());
    assert!(grown.has_region_ready());
    grown.free_all();
}

/// Bit 63 of each number in `/proc/self/pagemap` says that a page has memory
/// (Linux, Documentation/admin-guide/mm/pagemap.rst).
#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    clippy::host_endian_bytes,
    reason = "a file of the kernel's, with numbers of this machine"
)]
#[test]
fn all_pages_of_a_region_that_is_ready_have_memory() {
    use std::os::unix::fs::FileExt;
    let Some(region) = ready_region() else { return };
    let page_bytes = rustix::param::page_size();
    let mut pages = vec![0; REGION_BYTES / page_bytes * 8];
    let map = std::fs::File::open("/proc/self/pagemap").unwrap();
    let offset = region.0.addr() / page_bytes * 8;
    map.read_exact_at(&mut pages, offset as u64).unwrap();
    let has_memory = |page: &[u8; 8]| u64::from_ne_bytes(*page) >> 63 == 1;
    assert!(pages.as_chunks().0.iter().all(has_memory));
}

/// Other tests grow and shrink the same heap, so the region may be gone at once.
#[test]
fn threads_that_allocate_make_the_next_region() {
    if ready_region().is_none() {
        return;
    }
    let layout = Layout::from_size_align(100_000, 8).unwrap();
    let seen = AtomicBool::new(false);
    let grow = || {
        let mut all = Vec::new();
        for _ in 0..1_000 {
            // SAFETY: the layout has bytes.
            all.push(unsafe { heap::allocate(layout) });
            seen.fetch_or(is_ready(&heap::lock().blocks), Ordering::Relaxed);
        }
        for block in all {
            // SAFETY: the block is of this layout.
            unsafe { heap::free(block, layout) };
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(grow);
        scope.spawn(grow);
    });
    assert!(seen.into_inner(), "no region was made");
}
