//! Inkstone's engine as a plain ordered map on disk: for programs that embed LevelDB.
//!
//! ```
//! use ordered_map::{WriteBatch, Map};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = "data";
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path().join("data");
//! let map = Map::open(&directory)?;
//! map.put("colour/ink", "black")?;
//! map.write(WriteBatch::new().put("colour/stone", "grey").delete("colour/ink"))?;
//!
//! assert_eq!(map.get("colour/stone")?.as_deref(), Some(&b"grey"[..]));
//! assert_eq!(map.get("colour/ink")?, None);
//! for pair in map.prefix("colour/") {
//!     let (key, value) = pair?;
//!     assert_eq!((&key[..], &value[..]), (&b"colour/stone"[..], &b"grey"[..]));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!   writers ──► commit queue ──► one of them: log (page cache, or device) ──► index
//!   readers ──► index, no lock ──► value, from where it was written
//!                  upkeep thread: checkpoints, sweeps, reclaim
//! ```
//!
//! [`Map`] has keys and values of any bytes: put, get, delete, [`WriteBatch`]es that are written
//! together, ranges in both directions, [`Snapshot`]s. Any number of threads can use it, and
//! one process has the directory open.
//!
//! It keeps no old revisions to read, and has no watches, leases, transactions
//! or replicas: crate `inkstone` has those, on the same engine
//! (docs/decisions/0016-the-engine-alone.md).
//!
//! All keys live in memory (10 to 16 bytes each, and of the key what it does not share with its
//! neighbours); values live in the log, where they were written once, compressed if that makes
//! them shorter ([`Compression`]). Overwritten and deleted
//! values are dropped at once, unless a snapshot or a range is open: then everything written
//! since the oldest of them was made is kept until that is dropped.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod batch;
mod bounds;
mod compression;
mod core;
#[cfg(test)]
mod core_tests;
#[cfg(test)]
mod crash_tests;
mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod gathered;
mod held;
mod map;
mod options;
mod pair;
mod range;
mod snapshot;
mod stamp;
mod upkeep;
mod writing;

pub use batch::WriteBatch;
pub use compression::Compression;
pub use engine::{Durability, Status};
pub use error::Error;
pub use map::Map;
pub use options::Options;
pub use range::Range;
pub use snapshot::Snapshot;
