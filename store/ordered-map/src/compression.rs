//! Values in fewer bytes: each value for itself, as a block of LZ4.
//!
//! A value that stays where it was written must be read without its neighbours, so it is
//! compressed without them, too (docs/decisions/0045-compressed-values.md).

use std::cell::RefCell;

use bytes::Bytes;
use lz4_flex::block::{
    CompressTable, compress_into, compress_into_with_table, decompress_into,
    get_maximum_output_size,
};

/// How the values of a map are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// As blocks of LZ4, those of 192 bytes and more that become at least an eighth shorter by that.
    #[default]
    Lz4,
}

/// Shorter values are stored as they are: with 100 bytes a block saved a twelfth of the device's bytes, and
/// puts seemed to take a sixth to a quarter more of the processor's time (0045).
const VALUE_BYTES_MIN: usize = 192;
/// No value is longer: what says so is damaged.
const VALUE_BYTES_MAX: usize = 32 << 20;
/// A block is used if it saves this part of the value.
const SAVED_PART: usize = 8;
/// No byte of a block stands for more than this many bytes.
const EXPANSION_MAX: usize = 255;
/// Blocks of longer values are made in memory of their own. Shorter ones do with the small table.
const SCRATCH_VALUE_BYTES_MAX: usize = 32 << 10;

/// Memory in which a thread compresses one value after the other.
struct Scratch {
    table: CompressTable,
    block: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        table: CompressTable::small(),
        block: Vec::new(),
    });
}

impl Compression {
    /// The block to be stored for a value; `None` if the value is to be stored as it is.
    pub(crate) fn block_of(self, value: &[u8]) -> Option<Vec<u8>> {
        if self == Compression::None || value.len() < VALUE_BYTES_MIN {
            return None;
        }
        if value.len() > SCRATCH_VALUE_BYTES_MAX {
            return long_block(value);
        }
        // A thread that is about to end may have no scratch any more.
        let made = SCRATCH.try_with(|scratch| short_block(&mut scratch.borrow_mut(), value));
        made.unwrap_or_else(|_gone| long_block(value))
    }
}

fn short_block(Scratch { table, block }: &mut Scratch, value: &[u8]) -> Option<Vec<u8>> {
    let bytes_max = get_maximum_output_size(value.len());
    if block.len() < bytes_max {
        block.resize(bytes_max, 0);
    }
    let bytes = compress_into_with_table(value, block, table).ok()?;
    saves_enough(bytes, value).then(|| block[..bytes].to_vec())
}

fn long_block(value: &[u8]) -> Option<Vec<u8>> {
    let mut block = vec![0; get_maximum_output_size(value.len())];
    let bytes = compress_into(value, &mut block).ok()?;
    block.truncate(bytes);
    saves_enough(bytes, value).then_some(block)
}

fn saves_enough(block_bytes: usize, value: &[u8]) -> bool {
    block_bytes <= value.len() - value.len() / SAVED_PART
}

/// The value of `value_bytes` that a block stands for; `None` if the block is none of such a value.
pub(crate) fn decompress(block: &[u8], value_bytes: usize) -> Option<Bytes> {
    may_stand_for(block, value_bytes).then_some(())?;
    let mut value = vec![0; value_bytes];
    fill(&mut value, block)?;
    Some(value.into())
}

/// The same at the beginning of memory that grows where it must.
pub(crate) fn decompress_within<'m>(
    memory: &'m mut Vec<u8>,
    block: &[u8],
    value_bytes: usize,
) -> Option<&'m [u8]> {
    may_stand_for(block, value_bytes).then_some(())?;
    if memory.len() < value_bytes {
        memory.resize(value_bytes, 0);
    }
    let value = &mut memory[..value_bytes];
    fill(value, block)?;
    Some(value)
}

/// Whether a block can be one of such a value: asked before memory is taken.
fn may_stand_for(block: &[u8], value_bytes: usize) -> bool {
    let bytes_max = block.len().saturating_mul(EXPANSION_MAX);
    value_bytes <= bytes_max.min(VALUE_BYTES_MAX)
}

/// `None` if the block stands for other than as many bytes.
fn fill(value: &mut [u8], block: &[u8]) -> Option<()> {
    let bytes = decompress_into(block, value).ok()?;
    (bytes == value.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use environment::randomness::Random;

    fn block_of(value: &[u8]) -> Option<Vec<u8>> {
        Compression::Lz4.block_of(value)
    }

    /// Bytes that come again after `period` bytes.
    fn periodic(random: &mut Random, bytes: usize, period: usize) -> Vec<u8> {
        let piece: Vec<u8> = (0..period).map(|_| random.next_u64() as u8).collect();
        piece.iter().cycle().take(bytes).copied().collect()
    }

    #[test]
    fn values_of_all_lengths_come_back() {
        let mut random = Random::from_seed(1);
        for bytes in (192..600).chain([4_000, 32 << 10, (32 << 10) + 1, 65_535, 65_536, 3 << 20]) {
            // LZ4 looks back for 64 KiB.
            for period in [1, 7, (bytes / 2).min(60_000)] {
                let value = periodic(&mut random, bytes, period);
                let block = block_of(&value).unwrap();
                assert!(block.len() <= bytes - bytes / 8);
                assert_eq!(decompress(&block, bytes).unwrap(), value);
                assert_eq!(decompress(&block, bytes - 1), None);
                assert_eq!(decompress(&block, bytes + 1), None);
            }
        }
    }

    #[test]
    fn values_in_a_row_come_back_from_memory_that_is_used_again() {
        let mut random = Random::from_seed(4);
        let mut memory = Vec::new();
        for bytes in [200, 300, 20_000, 200, 70_000, 30_000, 20_000, 200, 200, 200] {
            let value = periodic(&mut random, bytes, 9);
            let block = block_of(&value).unwrap();
            assert_eq!(decompress_within(&mut memory, &block, bytes + 1), None);
            assert_eq!(
                decompress_within(&mut memory, &block, bytes).unwrap(),
                value
            );
        }
        assert_eq!(decompress_within(&mut memory, &[0x10, 7], usize::MAX), None);
        assert_eq!(memory.len(), 70_001);
    }

    #[test]
    fn values_that_do_not_get_shorter_are_stored_as_they_are() {
        let mut random = Random::from_seed(2);
        for bytes in [0, 1, 191, 192, 1_000, 100_000] {
            let value = periodic(&mut random, bytes, bytes.max(1));
            assert_eq!(block_of(&value), None, "{bytes}");
        }
        assert_eq!(block_of(&[7; 191]), None);
        assert_eq!(Compression::None.block_of(&[7; 1_000]), None);
    }

    #[test]
    fn a_block_that_promises_too_much_is_refused_before_memory_is_taken() {
        assert_eq!(decompress(&[], 0), None);
        assert_eq!(decompress(&[0x10, 7], usize::MAX), None);
        assert_eq!(decompress(&[0x10, 7], 1 << 40), None);
        // A run of zeros that is longer than any value.
        let long = block_of(&vec![0; VALUE_BYTES_MAX + 1]).unwrap();
        assert_eq!(decompress(&long, VALUE_BYTES_MAX + 1), None);
    }

    #[test]
    fn a_thread_that_is_about_to_end_compresses_as_well() {
        struct AtEnd;
        impl Drop for AtEnd {
            fn drop(&mut self) {
                let block = block_of(&[7; 1_000]).unwrap();
                assert_eq!(decompress(&block, 1_000).unwrap(), [7; 1_000][..]);
            }
        }
        thread_local!(static AT_END: AtEnd = const { AtEnd });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                AT_END.with(|_| ());
                block_of(&[7; 1_000]).unwrap();
            });
        });
    }

    #[test]
    fn damaged_blocks_are_refused_or_become_a_value_of_the_length_that_was_asked_for() {
        let mut random = Random::from_seed(3);
        let value = periodic(&mut random, 500, 90);
        let block = block_of(&value).unwrap();
        for _ in 0..20_000 {
            let mut damaged = block.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = random.next_u64() as u8;
            }
            damaged.truncate(random.below(damaged.len() as u64 + 1) as usize);
            if let Some(found) = decompress(&damaged, 500) {
                assert_eq!(found.len(), 500);
            }
        }
    }
}
