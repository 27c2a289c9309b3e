use super::*;
use environment::randomness::Random;

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

/// Adds blocks until the heap wants a spare region.
fn grow(blocks: &mut Blocks, all: &mut Vec<Filled>) {
    while !blocks.is_spare_due() {
        all.push(Filled::new(blocks, 100_000, all.len() as u8));
        assert!(all.len() < 10_000, "no spare region was asked for");
    }
}

fn is_in(region: *mut u8, filled: &Filled) -> bool {
    (region.addr()..region.addr() + REGION_BYTES).contains(&filled.block.addr())
}

#[test]
fn a_large_heap_grows_into_the_region_that_was_made_last() {
    let (mut blocks, mut all) = (Blocks::new(), Vec::new());
    grow(&mut blocks, &mut all);
    let bytes = region_bytes(&blocks);
    assert_eq!(bytes, BYTES_BEFORE_SPARE + REGION_BYTES);
    blocks.keep_spare(ReadyRegion::new().unwrap());
    let spare = ReadyRegion::new().unwrap();
    let region = spare.0;
    blocks.keep_spare(spare);
    assert!(!all.iter().any(|filled| is_in(region, filled)));
    grow(&mut blocks, &mut all);
    assert_eq!(region_bytes(&blocks), bytes + REGION_BYTES);
    assert!(is_in(region, all.last().unwrap()));
    all.into_iter().for_each(|filled| filled.free(&mut blocks));
}

#[test]
fn the_spare_region_goes_back_when_the_heap_shrinks() {
    let (mut blocks, mut all) = (Blocks::new(), Vec::new());
    grow(&mut blocks, &mut all);
    blocks.keep_spare(ReadyRegion::new().unwrap());
    all.into_iter().for_each(|filled| filled.free(&mut blocks));
    assert!(blocks.0.allocator().spare.take().is_none());
}

#[test]
fn a_block_longer_than_a_region_leaves_the_spare_one() {
    let (mut blocks, mut all) = (Blocks::new(), Vec::new());
    grow(&mut blocks, &mut all);
    blocks.keep_spare(ReadyRegion::new().unwrap());
    let long = Filled::new(&mut blocks, 2 * REGION_BYTES, 1);
    assert!(!blocks.is_spare_due());
    assert!(blocks.0.allocator().spare.take().is_some());
    long.free(&mut blocks);
    all.into_iter().for_each(|filled| filled.free(&mut blocks));
}
