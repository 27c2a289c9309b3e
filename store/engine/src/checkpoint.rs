//! Checkpoints: the index on disk, so that a restart replays only the tail.
//!
//! ```text
//!   replica thread     begin ──┐ applied index A, where to replay from, blob
//!                              ▼
//!   background         walk CURRENT, then HISTORY, then HIDDEN, in slices ─► file
//!   replica thread     apply A+1, A+2, ... at the same time
//! ```
//!
//! *No write waits for it and no memory is held back*: each slice pins a fresh
//! snapshot, so the file is not one moment of the trees but a smear from A to
//! the end of the walk. Replaying everything after A on top sets it right,
//! because
//!
//! - CURRENT is walked to its end before HISTORY is begun: what a later batch
//!   moved from the one to the other is met twice rather than never;
//! - replay leaves a version alone when the file knows it or a newer one of
//!   its key (dropping an older one that still stands in CURRENT), and moves a
//!   current version that it replaces to HISTORY, where it may stand already;
//! - HIDDEN comes last: where the file knows what a transaction did to a key, it
//!   also has what that transaction hid;
//! - compaction depends on nothing above its revision (`compaction.rs`), so
//!   running it again after the replay drops what the smear brought back, and
//!   its sweep drops a deletion last, so that no slice has a deleted key without it.
//!
//! A store without history needs none of that: only CURRENT is loaded, and the last change of
//! each key in the replayed batches takes the place of what the file has
//! (`Recovery::apply_gathered`).
//!
//! A file counts only under its final name: partial file, sync, rename, sync
//! of the directory. Two are kept. Segments are released only after a
//! checkpoint that points nowhere into them has become durable.

pub(crate) mod block;
mod builder;
pub(crate) mod entries;
pub(crate) mod files;
pub(crate) mod format;
pub(crate) mod incoming;
mod key_hasher;
pub(crate) mod load;
mod portions;
mod segment_sums;
mod tables;
mod unusable;
pub(crate) mod write;

pub(crate) use write::Job;
