//! The engines as targets, one file for each.

mod fjall;
mod leveldb;
mod lmdb;
mod redb;
mod rocksdb;
mod sled;

use lab::targets::Offer;
use lab::workload::DurabilityLevel;

/// The levels of durability except `None`, which every target supports.
const ALL_LEVELS: &[DurabilityLevel] = &[DurabilityLevel::Durable, DurabilityLevel::Os];

/// All peers, in the order of lists.
pub fn all() -> Vec<Offer> {
    vec![
        leveldb::OFFER,
        leveldb::DEFAULTS,
        rocksdb::OFFER,
        rocksdb::DEFAULTS,
        lmdb::OFFER,
        redb::OFFER,
        fjall::OFFER,
        sled::OFFER,
    ]
}

/// The limit of a range for an iterator; a limit of 0 means all pairs.
fn count(limit: u64) -> usize {
    match limit {
        0 => usize::MAX,
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    }
}
