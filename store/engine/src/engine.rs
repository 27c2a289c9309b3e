//! The engine's handle: what any thread may call.
//!
//! ```text
//!   Engine (any thread)            Applier (one thread)
//!     append ──► value log           apply, compact ──► index ──► publish
//!     snapshot ◄──────────────────────────────────────────────────┘
//!     read, history ◄── value log    maintain, checkpoint, defragment
//! ```

use crate::damage::DamagedVersion;
use crate::history::History;
use crate::key_walk::{self, KeyWalk};
use crate::parts::Parts;
use crate::scrub::Scrubber;
use crate::state_hash::StateHash;
use crate::transfer::HoldNotice;
use crate::versions::{HeldVersions, Versions};
use crate::{
    Applier, Batch, Entry, Error, HardState, Headers, Import, ImportNotice, KeyChange, Lineage,
    Looks, Options, Recovered, Replayed, Snapshot, Status, Surveyor, UpkeepStatus, Version, append,
    count, entry, recovery, trees,
};
use bytes::Bytes;
use environment::Disk;
use std::path::Path;
use std::sync::Arc;
use value_log::{Appended, Body, Log, Sequence};

/// Runs on the log's flush thread after each flush, and once on failure.
pub type Notice = Box<dyn Fn(Result<Sequence, Error>) + Send + Sync>;

/// A handle to an open engine; clones share it. Dropping the last handle (the
/// [`Applier`] holds one too) closes the log and unlocks the directory.
#[derive(Clone, Debug)]
pub struct Engine(pub(crate) Arc<Parts>);

impl Engine {
    /// Opens `directory`, creating it when it is missing, and takes its lock.
    /// `replay` receives the state blob of the last checkpoint and the batches
    /// after it; [`Replayed`] says more for stores without history. The caller then calls [`Applier::compact`] with the last
    /// compaction it saw there.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        replay: &mut dyn FnMut(Replayed<'_>) -> Result<(), Error>,
    ) -> Result<(Engine, Applier, Recovered), Error> {
        let opened = recovery::open(disk, directory, options, replay)?;
        let engine = Engine(Arc::clone(&opened.applied.parts));
        let applier = Applier::new(engine.clone(), opened.applied, opened.maintenance);
        Ok((engine, applier, opened.recovered))
    }

    fn log(&self) -> &Log {
        &self.0.records.log_view.log
    }

    /// Writes `batch` as one frame of the log. It is durable when
    /// [`Engine::on_durable`] says so, and visible when it is applied.
    pub fn append(&self, batch: &Batch) -> Result<Appended, Error> {
        self.append_with(batch, Headers::Long)
    }

    /// [`Engine::append`] with headers of the other form.
    pub fn append_with(&self, batch: &Batch, headers: Headers) -> Result<Appended, Error> {
        let body = self.encode(batch, headers)?;
        self.append_entry(batch, &body, None)
    }

    /// The body of a batch that changes something and may be written.
    pub(crate) fn encode(&self, batch: &Batch, headers: Headers) -> Result<Body, Error> {
        let body = batch.encode_with(headers)?;
        if batch.changes.is_empty() {
            return Err(Error::InvalidBatch {
                index: batch.index,
                what: "it changes nothing".into(),
            });
        }
        self.check(batch, &body)?;
        Ok(body)
    }

    /// Refuses a batch that is too large or for which there is no room, before it is sent to
    /// other members.
    pub fn check(&self, batch: &Batch, body: &Body) -> Result<(), Error> {
        append::check(&self.0, batch, body)
    }

    /// Makes room in the log for `body_bytes` of a batch's body and the hard state that may go
    /// with it. After [`Error::NoSpace`] the log is unchanged.
    pub fn make_room(&self, body_bytes: usize) -> Result<(), Error> {
        self.0.records.log_view.make_room(body_bytes)
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
        let records = &self.0.records;
        records.lifecycle.check_open()?;
        records.log_view.append_entry(batch, body, state)
    }

    /// The batch as a part of the last entry, of which it has the index; `None` if it must be an
    /// entry of its own.
    pub(crate) fn lengthen_last_entry(
        &self,
        batch: &Batch,
        body: &Body,
    ) -> Result<Option<Appended>, Error> {
        let records = &self.0.records;
        records.lifecycle.check_open()?;
        records.log_view.lengthen_last_entry(batch, body)
    }

    /// Writes a hard state. It must be durable before another member hears of the term or
    /// vote in it.
    pub fn append_hard_state(&self, state: HardState) -> Result<Sequence, Error> {
        let records = &self.0.records;
        records.lifecycle.check_open()?;
        Ok(records.log_view.append_hard_state(state)?.sequence)
    }

    /// The frames from `first` to `last` hold entries that will never be
    /// applied, because others of their indexes follow.
    pub fn overrule(&self, first: &Entry, last: &Entry) {
        let accounting = &self.0.records.log_view.accounting;
        accounting.overruled.lock().add(first.start, last.start);
    }

    /// The records of an entry, read back from the log.
    pub fn body(&self, entry: &Entry) -> Result<Body, Error> {
        let group = self.log().groups(entry.start).next().transpose()?;
        match group {
            Some(group) if group.start == entry.start && group.tag.index == entry.index => {
                Ok(entry::without_hard_state(group.body).0)
            }
            _ => Err(Error::EntryGone { index: entry.index }),
        }
    }

    /// With [`Worker::Caller`](crate::Worker::Caller): does the work of the log's threads.
    pub fn work(&self) {
        self.log().work();
    }

    /// Waits until everything written so far is on stable storage, with
    /// [`crate::Durability::Os`] too. A failure ends the log.
    pub fn flush(&self) -> Result<(), Error> {
        Ok(self.log().flush()?)
    }

    /// Sets the notice that runs after each flush of the log, and once when the log fails.
    pub fn on_durable(&self, notice: Notice) {
        self.log().on_durable(Box::new(move |outcome| {
            notice(outcome.map_err(Error::from))
        }));
    }

    /// Sets the notice that runs when an [`crate::Export`] or [`crate::HeldVersions`] are
    /// dropped, because sweeps may continue then ([`Applier::maintain`]). It runs on the thread
    /// that drops them. Only the first call has an effect.
    pub fn on_hold_dropped(&self, notice: HoldNotice) {
        self.0.transfers.holds.set_notice(notice);
    }

    /// Sequence of the last durable group.
    pub fn durable(&self) -> Sequence {
        self.log().durable()
    }

    /// Waits until the group is durable.
    pub fn wait_durable(&self, sequence: Sequence) -> Result<(), Error> {
        Ok(self.log().wait_durable(sequence)?)
    }

    /// A consistent view at the last applied revision. Never waits.
    pub fn snapshot(&self) -> Snapshot {
        self.0.records.index.snapshot()
    }

    /// The bytes of a version. [`Error::Compacted`] when it has been dropped
    /// since it was looked up.
    pub fn read(&self, version: &Version) -> Result<KeyChange, Error> {
        self.0.records.read(version)
    }

    /// [`Snapshot::get`] and [`Engine::read`] of one key, which copies nothing but
    /// the record's bytes.
    pub fn fetch(
        &self,
        snapshot: Snapshot,
        key: &[u8],
        at: i64,
    ) -> Result<Option<KeyChange>, Error> {
        self.0.records.fetch(snapshot, key, at)
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
        self.0.records.lineage(snapshot, key, at)
    }

    /// [`Engine::read`] of many versions, in their order. Those that lie together in the log are
    /// read together. Short records that are read one after the other share memory of up to
    /// 64 KiB, which is freed with the last of them.
    pub fn read_all(&self, versions: &[&Version]) -> Result<Vec<KeyChange>, Error> {
        self.0.records.read_all(versions)
    }

    /// Begins looks at many versions, for a caller that keeps none of them.
    pub fn looks(&self) -> Looks<'_> {
        Looks::new(&self.0.records)
    }

    /// All changes with a main revision of at least `from_main`, which must
    /// not be below the compacted one, up to what is applied.
    pub fn history(&self, from_main: i64) -> Result<History, Error> {
        History::new(&self.0, from_main)
    }

    /// Exactly the versions that etcd's `HashKV(at)` hashes, in revision
    /// order; `at` 0 is the last revision.
    pub fn versions_in_revision_order(&self, at: i64) -> Result<Versions, Error> {
        Versions::new(&self.0, at)
    }

    /// All versions that exist now, kept until this is dropped. On any thread. Not for stores that
    /// use [`Applier::apply_and_compact`], which drops versions without a sweep.
    pub fn hold_all_versions(&self) -> HeldVersions {
        HeldVersions::of_all(&self.0)
    }

    /// Index of the newest applied batch.
    pub fn applied_index(&self) -> u64 {
        self.0.records.index.applied_index()
    }

    /// Waits until all that was appended is durable. The log itself closes
    /// with the last handle, or with [`Applier::close`].
    pub fn close(&self) -> Result<(), Error> {
        self.0.records.log_view.wait_for_appended()
    }

    /// Figures for people and metrics.
    pub fn status(&self) -> Status {
        let (records, counters) = (&self.0.records, &self.0.counters);
        let segments = self.log().segments();
        let snapshot = self.snapshot();
        let log_bytes = segments.iter().map(|segment| segment.used_bytes).sum();
        let header_bytes: u64 = segments.iter().map(|segment| segment.first.offset()).sum();
        let needed_bytes = header_bytes + records.log_view.accounting.live.lock().live_bytes();
        Status {
            revision: snapshot.revision(),
            compacted: trees::compacted(&snapshot.trees),
            applied_index: records.index.applied_index(),
            applied_term: records.index.applied_term(),
            keys: snapshot.keys(),
            versions: snapshot.versions(),
            log_bytes,
            // Records may have come since the segments were looked at.
            live_bytes: needed_bytes.min(log_bytes),
            segments: segments.len(),
            index_bytes: records.index.index_bytes(),
            log: self.log().status(),
            upkeep: UpkeepStatus {
                checkpoints: counters.checkpoints.get(),
                checkpoint_bytes: counters.checkpoint_bytes.get(),
                relocated_bytes: counters.relocated_bytes.get(),
                released_segments: counters.released_segments.get(),
                swept_versions: counters.swept_versions.get(),
            },
        }
    }

    /// How many versions [`Snapshot::range`] yields: O(log n) at the newest
    /// revision, O(log n + keys created and deleted since) shortly after, a walk
    /// where that would be longer.
    ///
    /// `snapshot` must come from this engine.
    pub fn count(&self, snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>, at: i64) -> u64 {
        let accounting = &self.0.records.log_view.accounting;
        count::count(accounting, snapshot, (start, end), at)
    }

    /// A surveyor of the ranges that a snapshot shows at a revision: it counts their keys, and the bytes
    /// of their records, in a bounded time.
    ///
    /// `snapshot` must come from this engine.
    pub fn surveyor<'a>(&self, snapshot: &'a Snapshot, at: i64) -> Surveyor<'a> {
        Surveyor::new(&self.0.records.log_view.accounting, snapshot, at)
    }

    /// Size of a log segment, chosen when the directory was created.
    pub fn segment_bytes(&self) -> u64 {
        self.log().segment_bytes()
    }

    /// Bytes that all changes of one batch may take in the log, deletions
    /// included: a batch is one frame, and a frame lies in one segment.
    pub fn batch_log_bytes_max(&self) -> u64 {
        self.log().group_bytes_max()
    }

    /// Versions with damaged records that were read since the engine was opened, and that only
    /// another member can supply.
    pub fn damaged_versions(&self) -> Vec<DamagedVersion> {
        self.0.records.damage.all(false)
    }

    /// The record of exactly this version, for a member that has a damaged one. `None`: the
    /// version is not kept here (any more).
    pub fn record_of(&self, version: &DamagedVersion) -> Result<Option<Bytes>, Error> {
        self.0.records.record_of(version)
    }

    /// Writes a damaged version again, from the record that another member has of it.
    /// False: it is not damaged, or not kept here any more.
    pub fn mend_version(&self, version: &DamagedVersion, record: &Bytes) -> Result<bool, Error> {
        self.0.records.mend_version(version, record)
    }

    /// The hash of the state after the last applied batch. `None` for a moment after a snapshot
    /// was installed.
    pub fn state_hash(&self) -> Option<StateHash> {
        self.0.records.index.hashes.newest()
    }

    /// The hash of the state after the batch of this index, if that was one of the last.
    pub fn state_hash_at(&self, index: u64) -> Option<StateHash> {
        self.0.records.index.hashes.at(index)
    }

    /// Walks the keys of the index, and compares them with the sum that apply has kept
    /// ([`StateHash::keys`]): a fault of the memory changes the one and not the other. If they
    /// differ, the header of each newest record is read. The index frees no memory during the
    /// walk. `goes_on` is asked every few thousand keys; `None` if it returned false, if the
    /// sum of the walked state is not known, or if more than 64 MiB and a quarter of the index
    /// waited to be freed.
    pub fn check_keys(&self, goes_on: &mut dyn FnMut() -> bool) -> Option<KeyWalk> {
        key_walk::check(&self.0.records, goes_on)
    }

    /// Whether [`Engine::check_keys`] has found, since the engine was opened, that the index has
    /// changed by itself and cannot be corrected.
    pub fn has_spoiled_index(&self) -> bool {
        self.0.records.damage.has_spoiled_index()
    }

    /// Begins to verify the sealed segments of the log.
    pub fn scrubber(&self) -> Scrubber {
        Scrubber::new(&self.0)
    }

    /// The [`Lineage`] of this version, without its value.
    pub fn lineage_of(&self, version: &Version) -> Result<Lineage, Error> {
        let records = &self.0.records;
        records.lineage_at(&version.key, version.main, version.pointer)
    }

    /// Begins to receive a snapshot. With [`Worker::Caller`](crate::Worker::Caller) there is no
    /// thread: [`Import::offer`] does the work, and the notice is never run.
    pub fn import(&self, notice: ImportNotice) -> Result<Import, Error> {
        Import::begin(&self.0, notice)
    }
}
