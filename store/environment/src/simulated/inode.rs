//! One file's bytes: as cached, as written back, and as stable.
//!
//! ```text
//!            write            write-back (any time)          flush
//!   caller ─────────► cached ─────────────────────► pending ───────► stable
//!                     what Read shows                  what survives
//! ```
//!
//! A block is 4 KiB, the unit in which a page cache writes back. `pending`
//! holds every version since the last flush, because the kernel may have
//! written back after any of them; a loss of power picks one, tears two, or
//! keeps `stable`. After a failed flush `pending` is empty although `cached`
//! differs from `stable`: clean pages that the device never got.
//!
//! Images are shared, so that copying a whole disk copies pointers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use crate::randomness::Random;

/// The unit of write-back.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The unit that the device writes whole or not at all.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Versions of a block that are remembered between two flushes. Forgetting
/// one only means that no crash will show it.
const VERSIONS_MAX: usize = 8;

/// The contents of a block at one moment.
pub(super) type Image = Arc<[u8; BLOCK_BYTES as usize]>;

/// All holes and all zeroed blocks share this.
static ZEROS: LazyLock<Image> = LazyLock::new(|| Arc::new([0; BLOCK_BYTES as usize]));

/// Which of a file's views a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileView {
    /// The page cache.
    Cached,
    /// The device, after dirty pages were written back (as `O_DIRECT` does).
    Device,
}

/// 4 KiB of a file.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// What the page cache shows.
    pub cached: Image,
    /// What survives for certain.
    pub stable: Image,
    /// Versions newer than `stable`, oldest first, any of which the device
    /// may have. Empty when the page is clean.
    pub pending: Vec<Image>,
    /// The file system has room for it on stable storage: overwriting costs
    /// no journal commit.
    pub written: bool,
}

/// What a flush did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flushed {
    /// Dirty blocks that became stable.
    pub blocks: u64,
    /// New room or a new size had to be made durable as well.
    pub metadata: bool,
}

/// A file without its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub blocks: BTreeMap<u64, Block>,
    /// Blocks from the first on that have room, whether or not they were written.
    reserved_blocks: u64,
    /// Size as every caller sees it.
    pub cached_size: u64,
    /// Size that survives for certain.
    pub stable_size: u64,
    /// Sizes since the last flush, oldest first: any may survive.
    pub pending_sizes: Vec<u64>,
    /// Sectors (by number) that the device cannot read.
    pub bad_sectors: BTreeSet<u64>,
}

impl Block {
    fn hole() -> Block {
        let zeros = Arc::clone(&ZEROS);
        Block {
            cached: Arc::clone(&zeros),
            stable: zeros,
            pending: Vec::new(),
            written: false,
        }
    }

    fn view(&self, view: FileView) -> &Image {
        match view {
            FileView::Cached => &self.cached,
            FileView::Device => self.pending.last().unwrap_or(&self.stable),
        }
    }

    fn write(&mut self, image: Image) {
        self.cached = Arc::clone(&image);
        if self.pending.len() == VERSIONS_MAX {
            self.pending.remove(VERSIONS_MAX / 2);
        }
        self.pending.push(image);
    }

    /// True when a loss of power leaves it as it is.
    pub fn is_stable(&self) -> bool {
        self.pending.is_empty() && Arc::ptr_eq(&self.cached, &self.stable)
    }

    /// Makes `image` the stable version; nothing is under way any more.
    pub fn make_stable(&mut self, image: Image) {
        self.written |= !Arc::ptr_eq(&image, &self.stable);
        self.stable = image;
        self.pending.clear();
    }
}

impl Inode {
    /// Reads what `view` shows; short at the end of the file. `None` when a
    /// bad sector lies in the way.
    pub fn read(&self, buffer: &mut [u8], offset: u64, view: FileView) -> Option<usize> {
        let length = self
            .cached_size
            .saturating_sub(offset)
            .min(buffer.len() as u64);
        if self.has_bad_sector(offset, length) {
            return None;
        }
        for piece in pieces(offset, length) {
            let target = &mut buffer[piece.from..piece.from + piece.length];
            match self.blocks.get(&piece.block) {
                Some(block) => target.copy_from_slice(&block.view(view)[piece.within()]),
                None => target.fill(0),
            }
        }
        Some(length as usize)
    }

    fn has_bad_sector(&self, offset: u64, length: u64) -> bool {
        let end = (offset + length).div_ceil(SECTOR_BYTES);
        length > 0
            && self
                .bad_sectors
                .range(offset / SECTOR_BYTES..end)
                .next()
                .is_some()
    }

    /// Writes into the cache.
    pub fn write(&mut self, bytes: &[u8], offset: u64) {
        for piece in pieces(offset, bytes.len() as u64) {
            self.write_piece(&piece, &bytes[piece.from..piece.from + piece.length]);
        }
        let end = offset + bytes.len() as u64;
        if end > self.cached_size && !bytes.is_empty() {
            self.cached_size = end;
            self.pending_sizes.push(end);
        }
    }

    fn write_piece(&mut self, piece: &Piece, bytes: &[u8]) {
        let block = self.blocks.entry(piece.block).or_insert_with(Block::hole);
        let image = if piece.length as u64 == BLOCK_BYTES && bytes.iter().all(|&byte| byte == 0) {
            Arc::clone(&ZEROS)
        } else {
            let mut image = *block.cached;
            image[piece.within()].copy_from_slice(bytes);
            Arc::new(image)
        };
        block.write(image);
        // A device gives a rewritten sector a healthy place.
        let first = piece.block * (BLOCK_BYTES / SECTOR_BYTES);
        self.bad_sectors
            .retain(|it| !(first..first + BLOCK_BYTES / SECTOR_BYTES).contains(it));
    }

    /// Cuts or extends.
    pub fn set_size(&mut self, size: u64) {
        let cut = size < self.cached_size;
        self.cached_size = size;
        self.pending_sizes.push(size);
        if cut {
            self.reserved_blocks = self.reserved_blocks.min(size.div_ceil(BLOCK_BYTES));
            for (&number, block) in self.blocks.range_mut(size / BLOCK_BYTES..) {
                let kept = size.saturating_sub(number * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
                block.write(zeroed_from(&block.cached, kept));
            }
        }
    }

    /// Extends to `size`, and takes room up to there. The room survives with the size.
    pub fn reserve(&mut self, size: u64) {
        if size > self.cached_size {
            self.cached_size = size;
            self.pending_sizes.push(size);
        }
        self.reserved_blocks = self.reserved_blocks.max(size.div_ceil(BLOCK_BYTES));
    }

    /// Makes all bytes and the size stable.
    pub fn flush(&mut self) -> Flushed {
        let mut flushed = self.flush_blocks(0, u64::MAX);
        flushed.metadata |= !self.pending_sizes.is_empty();
        self.stable_size = self.cached_size;
        self.pending_sizes.clear();
        let end = self.cached_size.div_ceil(BLOCK_BYTES);
        self.blocks.retain(|&number, _| number < end);
        flushed
    }

    /// Makes the blocks of a range stable, and as much of the size as it
    /// takes to find them again. Other dirty blocks stay dirty: the kernel
    /// may well write them too, but does not promise it.
    pub fn flush_range(&mut self, offset: u64, length: u64) -> Flushed {
        if length == 0 {
            return Flushed::default();
        }
        let end = offset + length;
        let mut flushed = self.flush_blocks(offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        if end > self.stable_size {
            self.stable_size = end;
            flushed.metadata = true;
        }
        let stable_size = self.stable_size;
        self.pending_sizes
            .retain(|&size| size >= end && size != stable_size);
        assert!(
            self.cached_size >= end,
            "a range is flushed after it was written"
        );
        flushed
    }

    fn flush_blocks(&mut self, first: u64, end: u64) -> Flushed {
        let mut flushed = Flushed::default();
        for (_, block) in self.blocks.range_mut(first..end) {
            if let Some(image) = block.pending.pop() {
                flushed.blocks += 1;
                flushed.metadata |= !block.written;
                block.make_stable(image);
                block.written = true;
            }
        }
        flushed
    }

    /// Fails a flush: nothing is dirty any more, the cache still
    /// shows everything, and the device has any version of each block that was there since the last
    /// flush. Returns a line about each block for the trace.
    pub fn fail_flush(&mut self, range: Option<(u64, u64)>, random: &mut Random) -> Vec<String> {
        let (first, end) = match range {
            Some((offset, length)) => (
                offset / BLOCK_BYTES,
                (offset + length).div_ceil(BLOCK_BYTES),
            ),
            None => (0, u64::MAX),
        };
        let none_arrives = random.chance(1, 2);
        let mut story = Vec::new();
        for (&number, block) in self.blocks.range_mut(first..end) {
            if block.pending.is_empty() {
                continue;
            }
            let versions = block.pending.len();
            let written_back = random.below(versions as u64 + 1) as usize;
            let arrives = !none_arrives && random.chance(1, 3);
            let reached = if arrives { versions } else { written_back };
            let newest = block.pending[..reached].last();
            let image = Arc::clone(newest.unwrap_or(&block.stable));
            story.push(format!(
                "block {number}: version {reached} of {versions} since the last flush is on the device"
            ));
            block.make_stable(image);
        }
        if !none_arrives && random.chance(1, 3) {
            self.stable_size = self.cached_size;
        }
        self.pending_sizes.clear();
        story
    }

    /// True when a loss of power leaves the file as it is.
    pub fn is_stable(&self) -> bool {
        self.pending_sizes.is_empty()
            && self.cached_size == self.stable_size
            && self.blocks.values().all(Block::is_stable)
    }

    /// Blocks that take up room.
    pub fn used_blocks(&self) -> u64 {
        let end = self.cached_size.div_ceil(BLOCK_BYTES);
        let reserved = self.reserved_blocks.min(end);
        reserved + self.blocks.range(reserved..end).count() as u64
    }

    /// How much of a write fits when `free_blocks` more may be taken.
    pub fn length_that_fits(&self, offset: u64, length: u64, free_blocks: u64) -> u64 {
        let mut free = free_blocks;
        for piece in pieces(offset, length) {
            if !self.has_room(piece.block) {
                if free == 0 {
                    return piece.from as u64;
                }
                free -= 1;
            }
        }
        length
    }

    fn has_room(&self, block: u64) -> bool {
        block < self.reserved_blocks || self.blocks.contains_key(&block)
    }

    /// Blocks that a reservation of `size` bytes takes beside those that have room.
    pub fn blocks_to_reserve(&self, size: u64) -> u64 {
        let end = size.div_ceil(BLOCK_BYTES);
        (self.reserved_blocks..end)
            .filter(|&it| !self.has_room(it))
            .count() as u64
    }

    /// Forgets the page cache of clean pages: reads see the device again.
    pub fn evict(&mut self) {
        for block in self
            .blocks
            .values_mut()
            .filter(|block| block.pending.is_empty())
        {
            block.cached = Arc::clone(&block.stable);
        }
    }

    /// Turns one bit over, wherever a copy of it is.
    pub fn flip_bit(&mut self, offset: u64, bit: u8) {
        assert!(
            offset < self.cached_size,
            "there is no byte {offset} to damage"
        );
        let within = (offset % BLOCK_BYTES) as usize;
        let block = self
            .blocks
            .entry(offset / BLOCK_BYTES)
            .or_insert_with(Block::hole);
        let clean = block.is_stable();
        block.written = true;
        block.stable = flipped(&block.stable, within, bit);
        block.cached = if clean {
            Arc::clone(&block.stable)
        } else {
            flipped(&block.cached, within, bit)
        };
        for image in &mut block.pending {
            *image = flipped(image, within, bit);
        }
    }

    /// After the power came back: only what is stable exists.
    pub fn forget_volatile(&mut self) {
        assert!(self.pending_sizes.is_empty(), "sizes are decided before");
        self.cached_size = self.stable_size;
        let size = self.stable_size;
        self.reserved_blocks = self.reserved_blocks.min(size.div_ceil(BLOCK_BYTES));
        self.blocks
            .retain(|&number, block| number * BLOCK_BYTES < size && block.written);
        for (&number, block) in &mut self.blocks {
            assert!(block.pending.is_empty(), "blocks are decided before");
            if (number + 1) * BLOCK_BYTES > size {
                block.stable = zeroed_from(&block.stable, (size % BLOCK_BYTES) as usize);
            }
            block.cached = Arc::clone(&block.stable);
        }
    }
}

fn flipped(image: &Image, within: usize, bit: u8) -> Image {
    let mut bytes = **image;
    bytes[within] ^= 1 << bit;
    Arc::new(bytes)
}

/// The image with nothing but zeros from `kept` on.
fn zeroed_from(image: &Image, kept: usize) -> Image {
    if kept == 0 {
        return Arc::clone(&ZEROS);
    }
    let mut bytes = **image;
    bytes[kept..].fill(0);
    Arc::new(bytes)
}

/// The part of a range that lies in one block.
struct Piece {
    block: u64,
    /// Where it starts in the block.
    start: usize,
    length: usize,
    /// Where it starts in the caller's range.
    from: usize,
}

impl Piece {
    fn within(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.length
    }
}

fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Piece> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        let next = ((at / BLOCK_BYTES + 1) * BLOCK_BYTES).min(end);
        let piece = Piece {
            block: at / BLOCK_BYTES,
            start: (at % BLOCK_BYTES) as usize,
            length: next.saturating_sub(at) as usize,
            from: (at - offset) as usize,
        };
        at = next;
        (piece.length > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(inode: &Inode, view: FileView) -> Vec<u8> {
        let mut buffer = vec![7; inode.cached_size as usize];
        assert_eq!(inode.read(&mut buffer, 0, view), Some(buffer.len()));
        buffer
    }

    #[test]
    fn pieces_cut_a_range_at_block_boundaries() {
        let cut: Vec<_> = pieces(4_000, 5_000)
            .map(|it| (it.block, it.start, it.length, it.from))
            .collect();
        assert_eq!(
            cut,
            [(0, 4_000, 96, 0), (1, 0, 4_096, 96), (2, 0, 808, 4_192)]
        );
        assert_eq!(pieces(10, 0).count(), 0);
    }

    #[test]
    fn extending_after_a_cut_reads_zeros() {
        let mut inode = Inode::default();
        inode.write(&[1; 10_000], 0);
        inode.set_size(5_000);
        inode.set_size(10_000);
        let bytes = bytes_of(&inode, FileView::Cached);
        assert!(bytes[..5_000].iter().all(|&byte| byte == 1));
        assert!(bytes[5_000..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_flushed_range_leaves_other_dirty_blocks_dirty() {
        let mut inode = Inode::default();
        inode.write(&[1; 8_192], 0);
        let flushed = inode.flush_range(4_096, 4_096);
        assert_eq!((flushed.blocks, flushed.metadata), (1, true));
        assert!(!inode.blocks[&0].is_stable());
        assert!(inode.blocks[&1].is_stable());
        assert_eq!(inode.stable_size, 8_192);
    }

    #[test]
    fn overwriting_written_blocks_needs_no_journal_commit() {
        let mut inode = Inode::default();
        inode.write(&[0; 8_192], 0);
        assert!(inode.flush().metadata);
        inode.write(&[5; 100], 4_000);
        let flushed = inode.flush_range(4_000, 100);
        assert_eq!((flushed.blocks, flushed.metadata), (2, false));
    }
}
