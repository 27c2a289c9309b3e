//! The engines as targets, one file for each.

mod fjall;
mod leveldb;
mod lmdb;
mod redb;
mod rocksdb;
mod sled;

use lab::targets::Offer;

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
