//! The engine's handle: what any thread may call.
//!
//! ```text
//!   Engine (any thread)            Applier (one thread)
//!     append ──► value log           apply, compact ──► index ──► publish
//!     snapshot ◄──────────────────────────────────────────────────┘
//!     read, history ◄── value log    maintain, checkpoint, defragment
//! ```

use crate::books::Books;
use crate::damage::Damage;
use crate::entry;
use crate::history::History;
use crate::maintenance::Counters;
use crate::recovery;
use crate::transfer::LetGo;
use crate::transfer::holds::Holds;
use crate::transfer::import::Imports;
use crate::trees;
use crate::versions::Versions;
use crate::{
    Applier, Batch, Entry, Error, HardState, Lineage, Options, Recovered, Replayed, Snapshot,
    Status, Stored, Version,
};
use environment::{DirectoryLock, Disk};
use ordered_index::Reader;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use value_log::{Appended, Body, Log, Position, Sequence};

/// Runs on the log's flush thread after each flush, and once on failure.
pub type Notice = Box<dyn Fn(Result<Sequence, Error>) + Send + Sync>;

/// A handle to an open engine; clones share it. Dropping the last handle (the
/// [`Applier`] holds one too) closes the log and unlocks the directory.
#[derive(Clone, Debug)]
pub struct Engine(pub(crate) Arc<Shared>);

/// What all handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) log: Log,
    pub(crate) reader: Reader,
    pub(crate) books: Books,
    pub(crate) counters: Counters,
    pub(crate) damage: Damage,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) options: Options,
    /// Heap bytes of the index after the last publish.
    pub(crate) index_bytes: AtomicU64,
    pub(crate) applied_index: AtomicU64,
    pub(crate) applied_term: AtomicU64,
    /// Sequence of the last batch appended since open.
    pub(crate) appended: AtomicU64,
    /// From this main revision on the log has every change.
    pub(crate) log_floor: AtomicI64,
    /// Counts the snapshots installed since open: each begins another state.
    /// Raised before that is published.
    pub(crate) generation: AtomicU64,
    /// Exports and held versions that sweeps must wait for.
    pub(crate) holds: Arc<Holds>,
    /// The snapshot that is being received.
    pub(crate) imports: Imports,
    /// True once the applier is closed or dropped: background work gives up.
    pub(crate) stopping: AtomicBool,
    /// True while [`Applier::install`] waits for background work to give up, because a
    /// snapshot replaces the state that it works on.
    pub(crate) replacing: AtomicBool,
    /// True once the engine is closed. Another opening may write to the directory then, so
    /// nothing is read any more.
    pub(crate) closed: AtomicBool,
    /// The directory's lock; `None` once the engine is closed. The last field, so that it
    /// is dropped after the log.
    pub(crate) lock: Mutex<Option<Box<dyn DirectoryLock>>>,
}

impl Engine {
    /// Opens `directory`, creating it when it is missing, and takes its lock.
    /// `replay` receives the state blob of the last checkpoint and the batches
    /// after it. The caller then calls [`Applier::compact`] with the last
    /// compaction it saw there.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        replay: &mut dyn FnMut(Replayed<'_>) -> Result<(), Error>,
    ) -> Result<(Engine, Applier, Recovered), Error> {
        recovery::open(disk, directory, options, replay)
    }

    /// Writes `batch` as one frame of the log. It is durable when
    /// [`Engine::on_durable`] says so, and visible when it is applied.
    pub fn append(&self, batch: &Batch) -> Result<Appended, Error> {
        let body = batch.encode()?;
        if batch.changes.is_empty() {
            return Err(Error::InvalidBatch {
                index: batch.index,
                what: "it changes nothing".into(),
            });
        }
        self.check(batch, &body)?;
        self.append_entry(batch, &body, None)
    }

    /// Refuses a batch that is too large or for which there is no room, before it is sent to
    /// other members.
    pub fn check(&self, batch: &Batch, body: &Body) -> Result<(), Error> {
        self.0.check(batch, body)
    }

    /// Makes room in the log for `body_bytes` of a batch's body and the hard state that may go
    /// with it. After [`Error::NoSpace`] the log is unchanged.
    pub fn make_room(&self, body_bytes: usize) -> Result<(), Error> {
        self.0.make_room(body_bytes)
    }

    /// [`Engine::append`] of a batch that is encoded and was checked, here or
    /// by the member it comes from. It overrules the entry of its index and all later ones, if
    /// the log has them; [`Engine::overrule`] lets walks along the log skip these.
    /// `state` is written in the same frame.
    pub fn append_entry(
        &self,
        batch: &Batch,
        body: &Body,
        state: Option<HardState>,
    ) -> Result<Appended, Error> {
        self.0.append_entry(batch, body, state)
    }

    /// Writes a hard state. It must be durable before another member hears of the term or
    /// vote in it.
    pub fn append_hard_state(&self, state: HardState) -> Result<Sequence, Error> {
        Ok(self.0.append_hard_state(state)?.sequence)
    }

    /// The frames from `first` to `last` hold entries that will never be
    /// applied, because others of their indexes follow.
    pub fn overrule(&self, first: &Entry, last: &Entry) {
        self.0.books.overruled().add(first.start, last.start);
    }

    /// The records of an entry, read back from the log.
    pub fn body(&self, entry: &Entry) -> Result<Body, Error> {
        let group = self.0.log.groups(entry.start).next().transpose()?;
        match group {
            Some(group) if group.start == entry.start && group.tag.index == entry.index => {
                Ok(entry::without_hard_state(group.body).0)
            }
            _ => Err(Error::EntryGone { index: entry.index }),
        }
    }

    /// With [`Worker::Caller`](crate::Worker::Caller): does the work of the log's threads.
    pub fn work(&self) {
        self.0.log.work();
    }

    /// Waits until everything written so far is on stable storage, with
    /// [`crate::Durability::Os`] too. A failure ends the log.
    pub fn settle(&self) -> Result<(), Error> {
        Ok(self.0.log.settle()?)
    }

    /// Sets the notice that runs after each flush of the log, and once when the log fails.
    pub fn on_durable(&self, notice: Notice) {
        self.0.log.on_durable(Box::new(move |outcome| {
            notice(outcome.map_err(Error::from))
        }));
    }

    /// Sets the notice that runs when an [`crate::Export`] or [`crate::HeldVersions`] are
    /// dropped, because sweeps may continue then ([`Applier::maintain`]). It runs on the thread
    /// that drops them. Only the first call has an effect.
    pub fn on_let_go(&self, notice: LetGo) {
        self.0.holds.set_notice(notice);
    }

    /// Sequence of the last durable group.
    pub fn durable(&self) -> Sequence {
        self.0.log.durable()
    }

    /// Waits until the group is durable.
    pub fn wait_durable(&self, sequence: Sequence) -> Result<(), Error> {
        Ok(self.0.log.wait_durable(sequence)?)
    }

    /// A consistent view at the last applied revision. Never waits.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            trees: self.0.reader.pin(),
        }
    }

    /// The bytes of a version. [`Error::Compacted`] when it has been dropped
    /// since it was looked up.
    pub fn read(&self, version: &Version) -> Result<Stored, Error> {
        self.0.read(version)
    }

    /// [`Snapshot::get`] and [`Engine::read`] of one key, which copies nothing but
    /// the record's bytes.
    pub fn fetch(&self, snapshot: Snapshot, key: &[u8], at: i64) -> Result<Option<Stored>, Error> {
        self.0.fetch(snapshot, key, at)
    }

    /// The [`Lineage`] of the version of `key` that `snapshot` shows at revision `at`; `None`
    /// when it shows none. The whole record is read and verified; for one of up to 1 KiB nothing
    /// is allocated. [`Error::Compacted`] when the version has been dropped since.
    pub fn lineage(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
        at: i64,
    ) -> Result<Option<Lineage>, Error> {
        self.0.lineage(snapshot, key, at)
    }

    /// [`Engine::read`] of many versions, in their order. Those that lie together
    /// in the log are read together, and share up to 64 KiB of memory.
    pub fn read_all(&self, versions: &[&Version]) -> Result<Vec<Stored>, Error> {
        self.0.read_all(versions)
    }

    /// All changes with a main revision of at least `from_main`, which must
    /// not be below the compacted one, up to what is applied.
    pub fn history(&self, from_main: i64) -> Result<History, Error> {
        History::new(self, from_main)
    }

    /// Exactly the versions that etcd's `HashKV(at)` hashes, in revision
    /// order; `at` 0 is the last revision.
    pub fn versions_in_revision_order(&self, at: i64) -> Result<Versions, Error> {
        Versions::new(self, at)
    }

    /// Index of the newest applied batch.
    pub fn applied_index(&self) -> u64 {
        self.0.applied_index.load(Ordering::Acquire)
    }

    /// Waits until all that was appended is durable. The log itself closes
    /// with the last handle, or with [`Applier::close`].
    pub fn close(&self) -> Result<(), Error> {
        let appended = Sequence(self.0.appended.load(Ordering::Acquire));
        if appended > self.0.log.durable() {
            self.wait_durable(appended)
        } else {
            Ok(())
        }
    }

    /// Figures for people and metrics.
    pub fn status(&self) -> Status {
        let shared = &self.0;
        let log = shared.log.status();
        let segments = shared.log.segments();
        let snapshot = self.snapshot();
        let counter = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let log_bytes = segments.iter().map(|segment| segment.used_bytes).sum();
        let header_bytes: u64 = segments.iter().map(|segment| segment.first.offset()).sum();
        let needed_bytes = header_bytes + shared.books.live().live_bytes();
        Status {
            revision: snapshot.revision(),
            compacted: trees::compacted(&snapshot.trees),
            applied_index: shared.applied_index.load(Ordering::Acquire),
            applied_term: shared.applied_term.load(Ordering::Acquire),
            keys: snapshot.keys(),
            versions: snapshot.versions(),
            log_bytes,
            // Records may have come since the segments were looked at.
            live_bytes: needed_bytes.min(log_bytes),
            segments: segments.len(),
            spare_segments: log.spare_segments,
            index_bytes: counter(&shared.index_bytes),
            groups: log.groups,
            flushes: log.flushes,
            bytes_written: log.bytes_written,
            unflushed_bytes: log.unflushed_bytes,
            checkpoints: counter(&shared.counters.checkpoints),
            checkpoint_bytes: counter(&shared.counters.checkpoint_bytes),
            relocated_bytes: counter(&shared.counters.relocated_bytes),
            released_segments: counter(&shared.counters.released_segments),
            swept_versions: counter(&shared.counters.swept_versions),
            failed: log.failed,
        }
    }
}

impl Applier {
    /// Ends the engine although there may be other handles: upkeep stops, the
    /// log's end is marked as clean, and the directory can be opened again.
    /// Those handles can still look up and count what is in memory; calls that
    /// need the log fail with [`Error::Closed`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.end_maintenance();
        let shared = &self.engine.0;
        shared.closed.store(true, Ordering::SeqCst);
        shared.imports.end_all();
        let outcome = shared.log.close();
        drop(
            shared
                .lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        Ok(outcome?)
    }
}

impl Shared {
    /// Fails once the engine is closed. Called after bytes were read from the log, because
    /// another opening may have changed them if the engine was closed during the read.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Closed {
                directory: self.directory.clone(),
            });
        }
        Ok(())
    }

    /// Whether background work should give up.
    pub(crate) fn gives_up(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.replacing.load(Ordering::Relaxed)
    }

    /// The present generation. If it is read after a pin, the pinned state belongs to it or
    /// to an earlier one.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn log_floor(&self) -> i64 {
        self.log_floor.load(Ordering::Acquire)
    }

    /// Where the walk through the log begins for `main`; `None` when the log
    /// does not have it.
    pub(crate) fn log_start(&self, main: i64) -> Option<Position> {
        if main < self.log_floor() {
            return None;
        }
        self.books.marks().before(main)
    }

    /// Gives segments back that no index entry points into. After a failure halfway the
    /// released ones are forgotten and the others stay in the books.
    pub(crate) fn give_back(&self, dead: &[u32]) -> Result<(), Error> {
        if dead.is_empty() {
            return Ok(());
        }
        self.books
            .marks()
            .retain(|segment| !dead.contains(&segment));
        let outcome = {
            let _stay = self.damage.stay();
            self.log.release(dead)
        };
        let left: BTreeSet<u32> = self.log.segments().iter().map(|it| it.id).collect();
        let gone: Vec<u32> = dead
            .iter()
            .copied()
            .filter(|id| !left.contains(id))
            .collect();
        self.books
            .overruled()
            .retain(|segment| !gone.contains(&segment));
        let mut live = self.books.live();
        gone.iter().for_each(|&segment| live.forget(segment));
        self.counters
            .released_segments
            .fetch_add(gone.len() as u64, Ordering::Relaxed);
        Ok(outcome?)
    }
}
