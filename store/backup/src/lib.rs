//! Backups of a cluster in an object store.
//!
//! ```text
//!   place ── CLUSTER ── HISTORY ─┬─ bases     whole snapshots
//!                                └─ changes   all rows of a range of revisions      (seal, open)
//!
//!   BaseFile, ChangeBatch ──► place          a process that makes backups
//!   History ──► next_merge ──► merge   many small objects become one
//!   Catalog ──► Retention              what may be deleted
//!   Catalog ──► find ──► restore       an etcd database file of any revision
//! ```
//!
//! Objects are never changed, and each says in its name and in its header which revisions it has. Nothing
//! that is read is trusted. Revisions of one history follow each other; two histories are never mixed.
//! docs/decisions/0032-backups.md, docs/formats/backup.md

mod base;
mod base_reader;
mod batch;
mod catalog;
mod changes;
mod error;
pub mod format;
mod header;
mod leases;
mod mark;
mod merge;
mod moment;
mod name;
mod needless;
mod place;
mod plan;
mod restore;
mod restore_source;
mod retention;
mod scratch;
mod session;
mod spool;
mod verify;

pub use base::BaseFile;
pub use batch::{ChangeBatch, ChangedRow, ClusterHash};
pub use catalog::{BackupHistory, Catalog};
pub use changes::{OpenedChanges, Origin, SealedChanges, open, seal};
pub use error::Error;
pub use mark::{Mark, Marker};
pub use moment::{Moment, Selection};
pub use name::{ObjectKind, ObjectName};
pub use place::{BackupPlace, BaseFacts, Pauses, StoredObject};
pub use plan::{Gap, RestorePlan, reach};
pub use restore::{Restored, restore};
pub use retention::Retention;
pub use scratch::Scratch;
pub use session::{Anchor, BackupSession, SessionStart};
pub use verify::verify;
