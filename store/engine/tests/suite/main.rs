//! Tests of the engine, most of them on a simulated disk.
//!
//! One program: a crate's tests are compiled and linked once.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod bulk_deletion;
mod checkpoints;
mod compaction;
mod counts;
mod crash;
mod directory;
mod entries;
mod hidden;
mod joined_entries;
mod key_order;
mod limits;
mod looks;
mod model;
mod reclaim;
mod scrub;
mod small_disk;
mod snapshot_crash;
mod snapshot_pieces;
mod snapshots;
mod state_hash;
mod store;
mod superseding;
mod surveys;
