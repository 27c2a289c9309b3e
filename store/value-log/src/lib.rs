//! The write-ahead log that is also the value store.
//!
//! ```
//! # use std::sync::Arc;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! use environment::real::RealDisk;
//! use value_log::{Log, Options, Record};
//!
//! let options = Options { segment_bytes: 1 << 20, ..Options::default() };
//! let disk = Arc::new(RealDisk);
//! let (log, _) = Log::open(disk.clone(), directory.path(), options.clone(), None, &mut |_| Ok(()))?;
//!
//! let appended = log.append(&[Record { kind: 1, parts: &[b"ink ", b"on stone"] }])?;
//! log.wait_durable(appended.sequence)?;
//! assert_eq!(log.read(appended.positions[0], 0)?.payload, &b"ink on stone"[..]);
//! log.close()?;
//!
//! let mut groups = 0;
//! let (_log, recovered) = Log::open(disk, directory.path(), options, None, &mut |group| {
//!     groups += group.records.len();
//!     Ok(())
//! })?;
//! assert!(recovered.clean && groups == 1);
//! # Ok(())
//! # }
//! ```
//!
//! A record is written once and stays where it is: [`Log::append`] gives its
//! [`Position`] at once, the promise that it survives comes with the flush, and
//! [`Log::read`] finds it there as long as its segment is kept. The log knows
//! nothing of keys or revisions.
//!
//! ```text
//!   append ──► group buffer ──► frame ──one write, one flush──► segment ──► segment ─ ─
//!    many       reserve: one     sealed when                    64 MiB, zeroed ahead,
//!    threads    atomic step      the device is idle             recycled by renaming
//! ```
//!
//! * **Group commit without timers**: records that arrive while the device is busy
//!   form the next group; `committer`, `ledger`.
//! * **One durable group is one system call, one device flush**, and no block
//!   more than its frame fills: segments consist of blocks that were written
//!   before; `segment_pool`. Eight times in a segment one more flush notes how far
//!   frames may reach, so that a restart need not read on.
//! * **Recovery tells a torn tail from damage**: every frame says up to where
//!   the log was stable when it was written; `recovery`.
//! * **Fail-stop**: after a failed write or flush nothing is accepted until the
//!   log has been opened again; `commit_progress`.
//!
//! The bytes on disk are described in `docs/formats/value-log.md`, a longer
//! example is `examples/append_read_recover.rs`.
//!
//! Threads: `log-flush` writes the log and runs the notices, `log-segments`
//! makes segments ahead; with another [`Worker`], callers do that work. Readers take no
//! lock over I/O. The caller takes the directory's lock.

#![warn(missing_docs)]

mod blocks;
mod body;
mod buffer;
mod cached;
mod checksum;
mod commit_progress;
mod committer;
mod directory;
mod doorbell;
mod error;
mod format;
mod frame;
mod frame_seal;
mod group;
mod groups;
mod growing;
mod hints;
pub mod inspect;
mod last_frame;
mod ledger;
#[cfg(test)]
mod ledger_tests;
mod log;
mod log_state;
mod looks;
mod open;
mod options;
mod pins;
mod position;
mod producer;
mod reader;
mod reads;
mod recent;
mod record;
mod recovery;
mod release;
mod relocation;
pub mod repair;
mod scrub;
mod segment;
mod segment_pool;
mod status;
mod suspect;
mod sync;
mod tag;
mod window;
mod work;

pub use blocks::Blocks;
pub use body::{Body, BodyBuilder};
pub use checksum::crc32c_of;
pub use error::Error;
pub use group::{Appended, Group, GroupBuffer};
pub use groups::Groups;
pub use log::{Log, Notice};
pub use looks::Looks;
pub use open::WalkedLog;
pub use options::{Durability, Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Seal, Worker};
pub use position::{Position, SEGMENT_MAX, Sequence};
pub use reads::{ReadRecord, Reads};
pub use record::{Record, RecordBuffer};
pub use relocation::Relocation;
pub use scrub::{DamagedStretch, Scrub, Scrubbed};
pub use status::{Recovered, SegmentInfo, SegmentKind, Status};
pub use suspect::Suspect;
pub use tag::Tag;
