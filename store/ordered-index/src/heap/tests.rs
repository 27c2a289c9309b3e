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
