//! The contents of a disk after a restart.
//!
//! | | page cache | un-synced blocks and sizes | un-synced names |
//! |---|---|---|---|
//! | process crash | kept, still dirty | as seen, still not durable | as seen, still not durable |
//! | loss of power | gone | each kept, lost or torn | kept or lost |
//!
//! Every loss of power draws its own odds: sometimes nearly all blocks arrive and
//! one is missing, sometimes nearly none arrives and one is there. With even
//! odds alone neither would be seen once many blocks are dirty.
//!
//! A torn block is a mix of sectors of an older and a newer version. A sector
//! itself is torn only by `Writes::Shredded`, and even then no byte changes
//! that was not being changed (`docs/assumptions.md`, power-safe overwrite).

use std::sync::Arc;

use super::inode::{BLOCK_BYTES, Block, Image, Inode, SECTOR_BYTES};
use super::names::NameChange;
use crate::randomness::Random;

/// How the machine went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Only the process died: the page cache is kept. Un-synced data
    /// is still not durable, and a later loss of power may take it.
    ProcessCrash,
    /// The machine lost power.
    PowerLoss(PowerLoss),
}

/// What a loss of power does to un-synced data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerLoss {
    /// Un-synced bytes and sizes.
    pub writes: Writes,
    /// Un-synced creations, renames and removals.
    pub names: Names,
}

/// The fate of un-synced writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// All arrived.
    Kept,
    /// None arrived.
    Lost,
    /// Each block arrived, was lost or was torn, in any order; a file's size
    /// likewise, independently of its blocks.
    Scattered,
    /// Like `Scattered`, and in a torn block one sector holds rubbish wherever
    /// the two versions differ: what a device may leave that does not write sectors
    /// atomically, but harms no byte it was not changing.
    Shredded,
}

/// The fate of un-synced changes to directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// All arrived.
    Kept,
    /// None arrived.
    Lost,
    /// The first few arrived, as a journal guarantees.
    Prefix,
    /// Any of them arrived.
    Scattered,
}

impl Restart {
    const fn losing(writes: Writes, names: Names) -> Restart {
        Restart::PowerLoss(PowerLoss { writes, names })
    }

    /// Power lost on a journaling file system: everything un-synced may
    /// arrive, be lost or be torn. The one for most tests.
    pub const fn power_loss() -> Restart {
        Restart::losing(Writes::Scattered, Names::Prefix)
    }

    /// The same without a journal: names come and go one by one too.
    pub const fn power_loss_without_journal() -> Restart {
        Restart::losing(Writes::Scattered, Names::Scattered)
    }

    /// Power lost on a device that does not write sectors atomically.
    pub const fn power_loss_within_a_sector() -> Restart {
        Restart::losing(Writes::Shredded, Names::Prefix)
    }

    /// Power lost before anything un-synced arrived.
    pub const fn nothing_kept() -> Restart {
        Restart::losing(Writes::Lost, Names::Lost)
    }

    /// Power lost after everything un-synced arrived.
    pub const fn everything_kept() -> Restart {
        Restart::losing(Writes::Kept, Names::Kept)
    }
}

/// The odds of one loss of power.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Of thousand blocks that are not torn, how many arrive.
    kept_permille: u64,
    /// Of thousand dirty blocks, how many are torn.
    torn_permille: u64,
    /// Of thousand blocks that arrive, how many do so in their newest version.
    newest_permille: u64,
}

impl Weather {
    pub fn roll(random: &mut Random) -> Weather {
        Weather {
            kept_permille: *random.pick(&[0, 30, 300, 500, 700, 970, 1000]),
            torn_permille: *random.pick(&[0, 0, 100, 500]),
            newest_permille: *random.pick(&[500, 900, 1000]),
        }
    }

    /// Decides an inode's un-synced blocks and sizes; returns a line about
    /// each for the trace.
    pub fn decide(self, inode: &mut Inode, writes: Writes, random: &mut Random) -> Vec<String> {
        let mut story = Vec::new();
        for (&number, block) in &mut inode.blocks {
            if block.pending.is_empty() {
                continue;
            }
            let (image, fate) = self.choose(block, writes, random);
            story.push(format!("block {number} {fate}"));
            block.make_stable(image);
        }
        if !inode.pending_sizes.is_empty() {
            inode.stable_size = self.choose_size(inode, writes, random);
            story.push(format!(
                "size {} (seen {})",
                inode.stable_size, inode.cached_size
            ));
            inode.pending_sizes.clear();
        }
        story
    }

    fn choose(self, block: &Block, writes: Writes, random: &mut Random) -> (Image, String) {
        let newest = block.pending.len() - 1;
        let version = match writes {
            Writes::Kept => Some(newest),
            Writes::Lost => None,
            Writes::Scattered | Writes::Shredded => {
                if random.chance(self.torn_permille, 1000) {
                    return tear(block, writes == Writes::Shredded, random);
                }
                self.choose_version(newest, random)
            }
        };
        match version {
            None => (Arc::clone(&block.stable), "lost".to_owned()),
            Some(at) => {
                let fate = format!("kept (version {} of {})", at + 1, newest + 1);
                (Arc::clone(&block.pending[at]), fate)
            }
        }
    }

    /// Which version of an untorn block arrived.
    fn choose_version(self, newest: usize, random: &mut Random) -> Option<usize> {
        if !random.chance(self.kept_permille, 1000) {
            None
        } else if random.chance(self.newest_permille, 1000) {
            Some(newest)
        } else {
            Some(random.below(newest as u64 + 1) as usize)
        }
    }

    fn choose_size(self, inode: &Inode, writes: Writes, random: &mut Random) -> u64 {
        match writes {
            Writes::Kept => inode.cached_size,
            Writes::Lost => inode.stable_size,
            Writes::Scattered | Writes::Shredded => {
                if random.chance(self.kept_permille, 1000) {
                    *random.pick(&inode.pending_sizes)
                } else {
                    inode.stable_size
                }
            }
        }
    }

    /// Which names survive, oldest first.
    pub fn surviving_names(
        self,
        pending: &[NameChange],
        names: Names,
        random: &mut Random,
    ) -> Vec<NameChange> {
        match names {
            Names::Kept => pending.to_vec(),
            Names::Lost => Vec::new(),
            Names::Prefix => pending[..random.below(pending.len() as u64 + 1) as usize].to_vec(),
            Names::Scattered => {
                let survives = |_: &&NameChange| random.chance(self.kept_permille, 1000);
                pending.iter().filter(survives).cloned().collect()
            }
        }
    }
}

const SECTORS: usize = (BLOCK_BYTES / SECTOR_BYTES) as usize;

/// Mixes the sectors of two versions, either up to a cut or here and there.
fn tear(block: &Block, shred: bool, random: &mut Random) -> (Image, String) {
    let newer = random.below(block.pending.len() as u64) as usize;
    let old = match random.below(newer as u64 + 1) as usize {
        0 => &block.stable,
        version => &block.pending[version - 1],
    };
    let new = &block.pending[newer];
    let shredded = shred.then(|| random.below(SECTORS as u64) as usize);
    let cut = random
        .chance(1, 2)
        .then(|| random.below(SECTORS as u64 + 1) as usize);
    let mut image = **old;
    let mut map = String::new();
    for sector in 0..SECTORS {
        let range = sector_range(sector);
        let is_new = cut.map_or_else(|| random.chance(1, 2), |cut| sector < cut);
        if shredded == Some(sector) {
            map.push('x');
            shred_sector(&mut image[range.clone()], &new[range], random);
        } else if is_new {
            map.push('n');
            image[range.clone()].copy_from_slice(&new[range]);
        } else {
            map.push('o');
        }
    }
    (
        Arc::new(image),
        format!("torn, sectors {map} (new is version {})", newer + 1),
    )
}

fn sector_range(sector: usize) -> std::ops::Range<usize> {
    sector * SECTOR_BYTES as usize..(sector + 1) * SECTOR_BYTES as usize
}

/// Old, new or neither, byte by byte, where the two differ.
fn shred_sector(old: &mut [u8], new: &[u8], random: &mut Random) {
    for (byte, &wanted) in old.iter_mut().zip(new).filter(|(old, new)| **old != **new) {
        match random.below(3) {
            0 => {}
            1 => *byte = wanted,
            _ => *byte = random.next_u64() as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A block of ones, flushed, overwritten with twos and then threes.
    fn dirty() -> Inode {
        let mut inode = Inode::default();
        inode.write(&[1; BLOCK_BYTES as usize], 0);
        inode.flush();
        inode.write(&[2; BLOCK_BYTES as usize], 0);
        inode.write(&[3; BLOCK_BYTES as usize], 0);
        inode
    }

    fn sectors_after(seed: u64) -> Vec<u8> {
        let mut inode = dirty();
        let mut random = Random::from_seed(seed);
        let weather = Weather::roll(&mut random);
        weather.decide(&mut inode, Writes::Scattered, &mut random);
        let image = &inode.blocks[&0].stable;
        image
            .chunks(SECTOR_BYTES as usize)
            .map(whole_sector)
            .collect()
    }

    fn whole_sector(sector: &[u8]) -> u8 {
        assert!(
            sector.iter().all(|&byte| byte == sector[0]),
            "a sector is never torn"
        );
        sector[0]
    }

    #[test]
    fn a_dirty_block_is_lost_kept_at_either_version_or_torn() {
        let outcomes: BTreeSet<Vec<u8>> = (0..2_000).map(sectors_after).collect();
        for whole in [1, 2, 3] {
            assert!(
                outcomes.contains(&vec![whole; 8]),
                "all sectors of version {whole}"
            );
        }
        let torn_of = |old: u8, new: u8| {
            outcomes
                .iter()
                .any(|it| it.contains(&old) && it.contains(&new))
        };
        assert!(torn_of(1, 2) && torn_of(1, 3) && torn_of(2, 3));
        let out_of_order = outcomes.iter().any(|it| it[0] == 1 && it[7] == 3);
        assert!(
            out_of_order,
            "a later sector may arrive without an earlier one"
        );
    }

    #[test]
    fn the_same_seed_leaves_the_same_sectors() {
        assert!((0..100).all(|seed| sectors_after(seed) == sectors_after(seed)));
    }

    #[test]
    fn a_size_may_survive_without_its_blocks_and_the_other_way_round() {
        let outcomes: BTreeSet<(u64, bool)> = (0..500).map(grown_after).collect();
        assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    }

    /// Size and presence of the block after a file grew and the power went.
    fn grown_after(seed: u64) -> (u64, bool) {
        let mut inode = Inode::default();
        inode.write(&[1; 4096], 0);
        let mut random = Random::from_seed(seed);
        let weather = Weather {
            kept_permille: 500,
            torn_permille: 0,
            newest_permille: 1000,
        };
        weather.decide(&mut inode, Writes::Scattered, &mut random);
        (inode.stable_size, inode.blocks[&0].written)
    }
}
