//! Signatures, for minutes.
#![expect(missing_docs, unused_variables, reason = "signatures only, for minutes")]
use crate::*;
use bytes::Bytes;
use environment::Disk;
use std::path::Path;
use std::sync::Arc;

/// Clone + Send + Sync.
#[derive(Clone, Debug)]
pub struct Engine {}
/// What was found at open.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    pub revision: i64,
    pub applied_term: u64,
    pub applied_index: u64,
    /// True when a torn tail was cut.
    pub torn: bool,
    pub batches: u64,
}
/// A version of a key as the index knows it. Owned, Send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version { pub key: Bytes, pub main: i64, pub tombstone: bool }
/// A version of a key as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored { pub revision: Revision, pub tombstone: bool, pub created: i64, pub version: i64, pub lease: i64, pub key: Bytes, pub kv: Bytes }
pub type Notice = Box<dyn Fn(Result<Sequence, Error>) + Send + Sync>;

impl Engine {
    pub fn open(disk: Arc<dyn Disk>, directory: &Path, options: Options, replay: &mut dyn FnMut(Replayed<'_>) -> Result<(), Error>) -> Result<(Engine, Applier, Recovered), Error> { panic!("not built yet") }
    pub fn append(&self, batch: &Batch) -> Result<Appended, Error> { panic!("not built yet") }
    pub fn on_durable(&self, notice: Notice) { panic!("not built yet") }
    pub fn durable(&self) -> Sequence { panic!("not built yet") }
    pub fn wait_durable(&self, sequence: Sequence) -> Result<(), Error> { panic!("not built yet") }
    pub fn snapshot(&self) -> Snapshot { panic!("not built yet") }
    /// Reads a version; if the record moved meanwhile it is looked up again. `Error::Compacted` when it is gone.
    pub fn read(&self, version: &Version) -> Result<Stored, Error> { panic!("not built yet") }
    /// All key changes with main >= from_main (>= compacted), in order, up to what is applied.
    pub fn history(&self, from_main: i64) -> Result<History, Error> { panic!("not built yet") }
    /// Exactly what etcd's HashKV(at) hashes, in revision order (filter of hash.go included).
    pub fn versions_in_revision_order(&self, at: i64) -> Result<Versions, Error> { panic!("not built yet") }
    pub fn status(&self) -> Status { panic!("not built yet") }
    /// Flushes and stops; later appends fail.
    pub fn close(&self) -> Result<(), Error> { panic!("not built yet") }
}

/// The single writer of the index; owned by the replica thread. Send.
#[derive(Debug)]
pub struct Applier {}
impl Applier {
    pub fn apply(&mut self, batch: &Batch, appended: &Appended) { panic!("not built yet") }
    /// Call when the compaction's State record is applied; and once after open with the last compacted revision replayed.
    pub fn compact(&mut self, revision: i64) { panic!("not built yet") }
    /// A step of checkpoint/reclaim when due; cheap when nothing is; call often (each loop of the replica thread, and on ticks).
    /// `state` is asked for the state blob, as of everything applied so far, only when a checkpoint begins. Slow work runs on a background thread.
    pub fn maintain(&mut self, state: &mut dyn FnMut() -> Vec<u8>) -> Result<(), Error> { panic!("not built yet") }
    /// Writes a checkpoint now and waits for it.
    pub fn checkpoint(&mut self, state: &[u8]) -> Result<(), Error> { panic!("not built yet") }
    /// Rotates and reclaims everything with garbage now (writes wait, reads do not).
    pub fn defragment(&mut self, state: &[u8]) -> Result<(), Error> { panic!("not built yet") }
    pub fn engine(&self) -> &Engine { panic!("not built yet") }
}

/// A consistent view at the last applied revision; !Send, short-lived.
#[derive(Debug)]
pub struct Snapshot { not_send: std::marker::PhantomData<*const ()> }
impl Snapshot {
    /// Last applied main revision; 1 when nothing was ever written.
    pub fn revision(&self) -> i64 { panic!("not built yet") }
    /// Last compacted main revision; -1 when never compacted.
    pub fn compacted(&self) -> i64 { panic!("not built yet") }
    /// The version of `key` visible at revision `at` (>= compacted); never a tombstone.
    pub fn get(&self, key: &[u8], at: i64) -> Option<Version> { panic!("not built yet") }
    /// Versions visible at `at` with start <= key < end (None: no end), from both ends.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>, at: i64) -> Range<'_> { panic!("not built yet") }
    pub fn count(&self, start: &[u8], end: Option<&[u8]>, at: i64) -> u64 { panic!("not built yet") }
}
/// DoubleEndedIterator of Version.
#[derive(Debug)]
pub struct Range<'a> { borrowed: std::marker::PhantomData<&'a ()> }
impl Iterator for Range<'_> { type Item = Version; fn next(&mut self) -> Option<Version> { let _ = self.borrowed; panic!("not built yet") } }
impl DoubleEndedIterator for Range<'_> { fn next_back(&mut self) -> Option<Version> { panic!("not built yet") } }

/// All changes of one main revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes { pub main: i64, pub versions: Vec<Stored> }
/// Iterator; None = nothing more applied yet, ask again later. Send.
#[derive(Debug)]
pub struct History {}
impl Iterator for History { type Item = Result<Changes, Error>; fn next(&mut self) -> Option<Self::Item> { panic!("not built yet") } }
/// Iterator of what HashKV hashes.
#[derive(Debug)]
pub struct Versions {}
impl Versions {
    /// Compacted revision this view was taken at (-1: never).
    pub fn compacted(&self) -> i64 { panic!("not built yet") }
    /// Current revision this view was taken at.
    pub fn revision(&self) -> i64 { panic!("not built yet") }
}
impl Iterator for Versions { type Item = Result<Stored, Error>; fn next(&mut self) -> Option<Self::Item> { panic!("not built yet") } }
