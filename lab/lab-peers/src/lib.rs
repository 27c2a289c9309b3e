//! The engines that Inkstone is measured against, as targets of the laboratory.
//!
//! ```text
//!   inkstone-lab-peers = the lab + this crate
//!     leveldb  rocksdb   C libraries of the system, opened at run time by their C interface
//!     lmdb               heed (with LMDB's own C inside)
//!     redb fjall sled    Rust
//! ```
//!
//! The crate is a workspace of its own, so that a build of Inkstone builds none of it. The
//! two libraries are opened when a run needs them; where one is missing, the run fails with
//! the name of the package. The C sources of LMDB are compiled too, so the build needs a C
//! compiler.
//!
//! ```text
//!   cargo build --release --manifest-path lab/lab-peers/Cargo.toml
//!   cd lab/lab-peers/target/release
//!   ./inkstone-lab-peers run engine leveldb rocksdb lmdb redb fjall sled --workload put
//!   ./inkstone-lab-peers seed 002
//!   INKSTONE_LAB_ROCKSDB=/opt/librocksdb.so ./inkstone-lab-peers run rocksdb   # another build of it
//! ```
//!
//! # Settings
//!
//! All engines have the same rule: flushes as the level of durability requires,
//! [`CACHE_BYTES`] for the engine's own cache, filters where it has them, and its defaults
//! otherwise. Meaning of an acknowledged put:
//!
//! | target | `durable` | `os` | grouping of durable writes |
//! |---|---|---|---|
//! | `leveldb` | `sync = true` | `sync = false`: the log is written with each put | a leader
//! writes and flushes for all waiting writers |
//! | `rocksdb` | `sync = 1` | `sync = 0`: the log is written with each put | the same |
//! | `lmdb` | a transaction for each put, default flags: pages, then the meta page, flushed |
//! `MDB_NOSYNC` | none: one writer at a time |
//! | `redb` | a transaction for each put, `Durability::Immediate` | not offered: `Durability::None` keeps a commit in the process | none: one writer at a time |
//! | `fjall` | `persist(SyncData)` after each put | the default: the journal is written with each
//! put | none: each put flushes the journal |
//! | `sled` | `flush()` after each put | the same: without it a put waits in the process, for up to 500 ms | flushes of several threads share a buffer |
//!
//! sled's `flush()` is `sync_file_range`, which does not flush the device's cache. The lab
//! counts device flushes and marks sled as not durable.
//!
//! | target | other settings |
//! |---|---|
//! | `leveldb` | block cache of 256 MiB, write buffer of 64 MiB, Bloom filter of 10 bits a key;
//! Snappy by default |
//! | `leveldb-defaults` | defaults, as db_bench measures: 8 MiB, 4 MiB, no filter |
//! | `rocksdb` | block cache of 256 MiB, Bloom filter of 10 bits a key, a background thread for
//! each processor; write buffer of 64 MiB and Snappy by default |
//! | `rocksdb-defaults` | defaults: 8 MiB, no filter, two background jobs |
//! | `lmdb` | map of 64 GiB, 4096 readers; it caches in the system's page cache |
//! | `redb`, `sled` | cache of 256 MiB instead of 1 GiB |
//! | `fjall` | cache of 256 MiB instead of 32 MiB; filters and LZ4 by default |
//!
//! LevelDB's C interface needs one allocation and one copy more for a read than C++.
//! RocksDB's has pinned reads, which the target uses.

mod foreign;
mod targets;

use lab::targets::Offer;

/// Size of an engine's cache in the process.
pub const CACHE_BYTES: usize = 256 << 20;

/// All peers, including those with missing libraries.
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
            // An empty version means that the library or LMDB reports it.
            assert!(
                offer.version.is_empty() || lock.contains(&built),
                "{} {}",
                offer.name,
                offer.version
            );
        }
    }
}
