//! The engines that Inkstone is measured against, as targets of the laboratory.
//!
//! ```text
//!   inkstone-lab-peers = the lab + this crate
//!     leveldb  rocksdb   C libraries of the system, opened at run time by their C interface
//!     lmdb               heed (with LMDB's own C inside)
//!     redb fjall sled    Rust
//! ```
//!
//! A workspace of its own: whoever builds Inkstone builds none of this. The two
//! libraries are looked for when a run needs them; a run whose library is missing
//! fails with the name of the package. LMDB's C is compiled along, so that a
//! build takes a C compiler.
//!
//! ```text
//!   cargo build --release --manifest-path crates/lab-peers/Cargo.toml
//!   cd crates/lab-peers/target/release
//!   ./inkstone-lab-peers run engine leveldb rocksdb lmdb redb fjall sled --workload put
//!   ./inkstone-lab-peers seed 002
//!   INKSTONE_LAB_ROCKSDB=/opt/librocksdb.so ./inkstone-lab-peers run rocksdb   # another build of it
//! ```
//!
//! # Settings
//!
//! One rule for all: what the promise takes, [`CACHE_BYTES`] for whatever the
//! engine caches itself, filters where it has them, and otherwise what its
//! authors chose. What an acknowledgement means:
//!
//! | target | `durable` | `os` | grouping of durable writes |
//! |---|---|---|---|
//! | `leveldb` | `sync = true` | `sync = false`: the log is written with each put | a leader writes and flushes for all who wait |
//! | `rocksdb` | `sync = 1` | `sync = 0`: the log is written with each put | the same |
//! | `lmdb` | a transaction for each put, flags as they come: pages, then the meta page, flushed | `MDB_NOSYNC` | none: one writer at a time |
//! | `redb` | a transaction for each put, `Durability::Immediate` | not offered: `Durability::None` keeps a commit in the process | none: one writer at a time |
//! | `fjall` | `persist(SyncData)` after each put | as it comes: the journal is written with each put | none: each put flushes the journal |
//! | `sled` | `flush()` after each put | the same: without it a put waits in the process, for up to 500 ms | flushes of several threads share a buffer |
//!
//! sled's `flush()` is `sync_file_range`, which empties no device's cache: the
//! lab counts the flushes and says so.
//!
//! | target | besides |
//! |---|---|
//! | `leveldb` | block cache of 256 MiB, write buffer of 64 MiB, Bloom filter of 10 bits a key, Snappy as it comes |
//! | `leveldb-defaults` | nothing: 8 MiB, 4 MiB, no filter. What db_bench measures |
//! | `rocksdb` | block cache of 256 MiB, Bloom filter of 10 bits a key, a background thread for each processor; write buffer of 64 MiB and Snappy as they come |
//! | `rocksdb-defaults` | nothing: 8 MiB, no filter, two background jobs |
//! | `lmdb` | map of 64 GiB, 4096 readers; it caches in the system's page cache |
//! | `redb`, `sled` | cache of 256 MiB instead of 1 GiB |
//! | `fjall` | cache of 256 MiB instead of 32 MiB; filters and LZ4 as they come |
//!
//! Through LevelDB's C interface a read costs one allocation and one copy more
//! than from C++; RocksDB's has pinned reads, which are used.

mod foreign;
mod targets;

use lab::targets::Offer;

/// What an engine may cache in the process.
pub const CACHE_BYTES: usize = 256 << 20;

/// All peers, whether their libraries are here or not.
pub fn offers() -> Vec<Offer> {
    targets::all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_lab_has_none_of_them() {
        let mut names: Vec<&str> = offers().iter().map(|offer| offer.name).collect();
        names.extend(lab::targets::built_in().iter().map(|offer| offer.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn versions_are_those_that_are_built() {
        let lock = include_str!("../Cargo.lock");
        for offer in offers() {
            let built = format!("name = \"{}\"\nversion = \"{}\"", offer.name, offer.version);
            // Without a version it is a library's or LMDB's own to tell.
            assert!(
                offer.version.is_empty() || lock.contains(&built),
                "{} {}",
                offer.name,
                offer.version
            );
        }
    }
}
