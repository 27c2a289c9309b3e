//! One file for each engine: how it is opened, and what its calls are.

mod fjall;
mod leveldb;
mod lmdb;
mod redb;
mod rocksdb;
mod sled;

use lab::targets::Offer;
use lab::workload::DurabilityLevel;

/// Whatever a workload may ask for, but for promising nothing, which all can.
const ALL_LEVELS: &[DurabilityLevel] = &[DurabilityLevel::Durable, DurabilityLevel::Os];

/// In the order in which people list them.
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

/// The limit of a range, which is 0 for all, as iterators want it.
fn count(limit: u64) -> usize {
    match limit {
        0 => usize::MAX,
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    }
}
