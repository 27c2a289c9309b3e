//! A multi-version ordered map that survives crashes: value log, index, checkpoint, reclaim.
//!
//! ```text
//!            Batch                                   key, revision
//!              │ 1 append                                  │ 4 snapshot, read
//!              ▼                                           ▼
//!   value log  ├─group─┼─group─┼─group─┤ 2 flush    index  CURRENT  HISTORY
//!              └──────────▲────────────┘                   │
//!                         └───────── places ◄──────────────┘
//!                                        ▲ 3 apply (one thread)
//! ```
//!
//! A value is written once, into the log; the index in memory points at it.
//! [`Engine`] is for every thread: append, snapshot, read, history.
//! [`Applier`] is the one writer of the index: it applies what is durable,
//! compacts, and runs checkpoints and reclaim beside the writes.
//!
//! What a *version* is: the bytes of a key at a main revision, kept until
//! compaction drops it, by etcd's rule (`compaction.rs`). The engine knows
//! revisions and keys. The crate above it knows what the bytes mean, keeps
//! leases and permissions, and gets its own state records back at recovery.
//!
//! Trade-offs: all keys live in memory (about 16 bytes and the key each, more
//! for superseded versions), so the memory limit is the limit of the store;
//! old values cost a read of the log; and values that live long are copied once more
//! when their segment is reclaimed.
//!
//! Where to read on: `apply.rs` (what a batch does to the index),
//! `snapshot.rs` (reading in the past), `checkpoint.rs` (why a smeared
//! checkpoint is enough), `reclaim.rs`, `maintenance.rs`, `recovery.rs`,
//! `transfer.rs` (a whole state from one member to another).
//!
//! ```
//! use bytes::Bytes;
//! use engine::{Batch, Change, Engine, KeyChange, Options, Revision};
//! use environment::real::RealDisk;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! # let options = Options { log: engine::LogOptions { segment_bytes: 1 << 20, reserve_bytes: 0, ..engine::LogOptions::default() }, ..Options::default() };
//! # let disk = Arc::new(RealDisk);
//! let (engine, mut applier, recovered) =
//!     Engine::open(disk, directory.path(), options, &mut |_replayed| Ok(()))?;
//! assert_eq!(recovered.revision, 1, "an empty store, as etcd counts");
//!
//! // What is stored for a key is an encoded mvccpb.KeyValue.
//! let change = |main, value: &str| {
//!     let kv = [b"\x0a\x04name\x2a", &[value.len() as u8][..], value.as_bytes()].concat();
//!     Change::Key(KeyChange {
//!         revision: Revision { main, sub: 0 },
//!         tombstone: false,
//!         key: Bytes::from_static(b"name"),
//!         kv: kv.into(),
//!         created: 2,
//!         version: main - 1,
//!         lease: 0,
//!     })
//! };
//! for (index, value) in [(1, "ink"), (2, "stone")] {
//!     let changes = vec![change(index as i64 + 1, value)];
//!     let batch = Batch { term: 1, index, changes };
//!     let appended = engine.append(&batch)?;
//!     engine.wait_durable(appended.sequence)?;
//!     applier.apply(&batch, &appended);
//! }
//!
//! let snapshot = engine.snapshot();
//! let now = snapshot.get(b"name", snapshot.revision()).expect("it was put");
//! let before = snapshot.get(b"name", 2).expect("it was put at revision 2");
//! assert!(engine.read(&now)?.kv.ends_with(b"stone"));
//! assert!(engine.read(&before)?.kv.ends_with(b"ink"));
//! assert_eq!(engine.history(2)?.count(), 2);
//! # Ok(())
//! # }
//! ```

mod accounting;
mod append;
mod applied;
mod applier;
mod apply;
mod batch;
mod bulk_deletion;
mod checkpoint;
mod compaction;
mod count;
mod counters;
mod creations;
mod damage;
mod damaged_group;
mod directory;
mod engine;
mod entry;
mod error;
mod format;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod hidden;
mod history;
mod history_key;
pub mod inspect;
mod key_walk;
mod last_changes;
mod lifecycle;
mod live;
mod log_view;
mod looks;
mod maintenance;
mod mend;
mod moves;
mod options;
mod overruled;
mod parts;
mod past_walk;
mod published;
mod range;
mod read;
mod read_all;
mod read_portion;
mod reclaim;
mod record;
mod record_pointer;
mod recovery;
mod replay;
mod revision_marks;
mod runs;
mod salvage;
mod scrub;
mod short_key;
mod side;
mod snapshot;
mod sorted_changes;
mod state_hash;
mod status;
mod survey;
mod task;
mod transfer;
mod trees;
mod versions;
mod whole_log;

pub use applier::Applier;
pub use batch::{Batch, Change, Headers, KeyChange, Lineage, Replayed, Revision};
pub use damage::DamagedVersion;
pub use engine::{Engine, Notice};
pub use entry::{Entry, HardState, Unapplied};
pub use error::Error;
pub use history::{Changes, History};
pub use key_walk::{KeyWalk, MemoryFault};
pub use looks::{Looked, Looks};
pub use options::{Commitment, Durability, LogOptions, Options, Worker};
pub use past_walk::First;
pub use range::{End, Range};
pub use recovery::Recovered;
pub use recovery::repair::{LostGroup, RepairPlan};
pub use scrub::{ScrubStep, ScrubbedDamage, Scrubber};
pub use snapshot::{Snapshot, Version};
pub use state_hash::StateHash;
pub use status::{Status, UpkeepStatus};
pub use survey::{Survey, Surveyor};
pub use task::Task;
pub use transfer::{
    Export, HoldNotice, Import, ImportNotice, ImportProgress, Installed, Piece, PieceWriter,
    SnapshotInfo,
};
pub use value_log::{Appended, Body, Position, SEGMENT_BYTES_MAX, Sequence};
pub use versions::{HeldVersions, VersionSize, Versions};
