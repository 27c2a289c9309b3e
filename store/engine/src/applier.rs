//! The handle of the one thread that writes the index.

use crate::applied::Applied;
use crate::maintenance::{Maintenance, closing};
use crate::state_hash::StateHash;
use crate::transfer::install;
use crate::{
    Batch, Commitment, Engine, Entry, Error, Export, Headers, HeldVersions, Import, Installed,
    MemoryFault,
};
use value_log::Appended;

/// Owned by the one thread that applies. It also starts checkpoints and
/// reclaim ([`Applier::maintain`]), because those need a moment between two batches.
#[derive(Debug)]
pub struct Applier {
    engine: Engine,
    applied: Applied,
    maintenance: Maintenance,
    /// Index of the entry that the next batch may join; 0 for none.
    joinable: u64,
}

impl Applier {
    pub(crate) fn new(engine: Engine, applied: Applied, maintenance: Maintenance) -> Applier {
        Applier {
            engine,
            applied,
            maintenance,
            joinable: 0,
        }
    }

    /// The engine that this applier belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// [`Engine::append_with`] for the only writer of a store with
    /// [`Commitment::Alone`], which applies each batch before it appends the next one. A batch of
    /// keys joins the last entry and gets its index, if that entry has nothing but keys either, came from
    /// here, and is in a group that can become longer ([`value_log::Log::lengthen_last_group`]).
    pub fn append_joining(
        &mut self,
        batch: &mut Batch,
        headers: Headers,
    ) -> Result<Appended, Error> {
        assert_eq!(
            self.applied.parts.options.commitment,
            Commitment::Alone,
            "an entry of Raft does not change"
        );
        let body = self.engine.encode(batch, headers)?;
        let has_keys_alone = batch.keys().count() == batch.changes.len();
        let last = self.applied.index.applied_index;
        let may_join =
            has_keys_alone && last > 0 && last == self.joinable && batch.index == last + 1;
        if may_join {
            batch.index = last;
            if let Some(appended) = self.engine.lengthen_last_entry(batch, &body)? {
                return Ok(appended);
            }
            batch.index = last + 1;
        }
        let appended = self.engine.append_entry(batch, &body, None)?;
        self.joinable = if has_keys_alone { batch.index } else { 0 };
        Ok(appended)
    }

    /// Bytes of records that [`Applier::append_joining`] can put into the last entry; 0 if the next
    /// batch begins an entry in any case.
    pub fn room_in_last_entry(&self) -> u64 {
        let last = self.applied.index.applied_index;
        match last > 0 && last == self.joinable {
            true => {
                let log = &self.applied.parts.records.log_view.log;
                log.room_in_last_group() as u64
            }
            false => 0,
        }
    }

    /// Makes a durable batch visible.
    pub fn apply(&mut self, batch: &Batch, appended: &Appended) {
        self.applied.apply(batch, appended);
    }

    /// [`Applier::apply`] and [`Applier::compact`] to the batch's last revision, in one step:
    /// versions that the batch replaces are dropped at once, and only versions kept from before
    /// are left to sweep. For stores that are never read in the past: a deletion leaves no
    /// tombstone, where a compaction to its revision would keep one for a watch that starts
    /// there.
    pub fn apply_and_compact(&mut self, batch: &Batch, appended: &Appended) {
        self.applied.apply_and_compact(batch, appended);
    }

    /// Compacts to `revision`: reads below it fail from now on. Does nothing if the store is
    /// compacted that far already. [`Applier::maintain`] drops the versions below it that are
    /// not kept, a slice at a time; [`Applier::finish_compaction`] drops them at once. After an
    /// open the caller calls this with the last compaction that was replayed.
    pub fn compact(&mut self, revision: i64) {
        self.applied.compact(revision);
    }

    /// Takes over the sum of effects of another member, which has a sum that began elsewhere;
    /// later sums of both can be compared. False if the sum at that index is not kept any more,
    /// or was not reached yet.
    pub fn take_over_effects(&mut self, theirs: &StateHash) -> bool {
        let Applied { parts, index, .. } = &mut self.applied;
        let hashes = &parts.records.index.hashes;
        hashes.take_over(&mut index.sums, theirs)
    }

    /// Changes the entry of a key in memory as a fault of the memory would: for tests. False if
    /// there is no such key.
    #[doc(hidden)]
    pub fn spoil_in_memory(&mut self, key: &[u8], fault: MemoryFault) -> bool {
        let Applied { parts, index, .. } = &mut self.applied;
        index.spoil(key, fault, &parts.records)
    }

    /// Finishes all sweeps before it returns. While an [`Export`] holds a sweep back,
    /// it returns with the sweep unfinished.
    pub fn finish_compaction(&mut self) {
        self.applied.finish_compaction();
    }

    /// Revision of the last compaction with a finished sweep; -1: never compacted, or no sweep
    /// is finished yet.
    pub fn swept(&self) -> i64 {
        self.applied.swept()
    }

    /// Whether compacted versions are left to drop: then every call of [`Applier::maintain`]
    /// drops some. False while an [`Export`] holds the sweep back.
    pub fn is_sweeping(&self) -> bool {
        self.applied.is_sweeping()
    }

    /// A step of sweeping, checkpointing and reclaim: does nothing when nothing
    /// is due, and never waits for the disk. Call it in every round of the applying
    /// thread. `state` is asked for the state blob, as of everything applied
    /// so far, when a checkpoint begins. After an error the step is tried
    /// again a second later, then after ever longer pauses.
    pub fn maintain(&mut self, state: &mut dyn FnMut() -> Vec<u8>) -> Result<(), Error> {
        self.applied.sweep_a_slice();
        let Applied { parts, index, .. } = &mut self.applied;
        parts.records.mend_what_is_proved();
        index.correct(&parts.records);
        self.maintenance.step_or_retry(&mut self.applied, state)
    }

    /// Whether a sweep, a checkpoint or reclaim is under way. False after a call
    /// of [`Applier::maintain`] means that nothing is due either.
    pub fn is_maintaining(&self) -> bool {
        self.maintenance.is_under_way(&self.applied) || self.is_sweeping()
    }

    /// Whether the next call of [`Applier::maintain`] makes progress without waiting for a
    /// thread to end.
    pub fn has_a_step_to_do(&self) -> bool {
        self.maintenance.has_a_step_to_do() || self.is_sweeping()
    }

    /// Keeps the log from this entry on, across restarts too, for members that
    /// are behind. `None`: only what a restart needs.
    pub fn keep_entries(&mut self, from: Option<&Entry>) {
        self.maintenance.keep_from(from.map(|entry| entry.start));
    }

    /// Writes a checkpoint now and returns when it is durable. `state` as for
    /// [`Applier::maintain`].
    pub fn checkpoint(&mut self, state: &[u8]) -> Result<(), Error> {
        self.maintenance.checkpoint(&mut self.applied, state)
    }

    /// Before [`Applier::close`]: writes a checkpoint if the next opening would replay much of the
    /// log without it. An error leaves the store as it is, for the opening to replay.
    pub fn checkpoint_for_opening(
        &mut self,
        state: &mut dyn FnMut() -> Vec<u8>,
    ) -> Result<(), Error> {
        closing::checkpoint_for_opening(&mut self.maintenance, &self.applied, state)
    }

    /// Has [`Applier::maintain`] release all that is garbage at this moment, for
    /// stores of any size. One that is under way starts over.
    pub fn begin_defragmentation(&mut self) {
        let compacted = self.applied.index.compacted;
        self.maintenance.begin_defragmentation(compacted);
    }

    /// [`Applier::begin_defragmentation`], and has versions that lie out of the order of their keys
    /// copied, so that neighbours lie together. The disk holds them twice until it ends. If they cannot
    /// be copied, for want of room or because the disk fails, the garbage is released, and the last call of
    /// [`Applier::maintain`] returns why.
    pub fn begin_defragmentation_in_key_order(&mut self) {
        let compacted = self.applied.index.compacted;
        self.maintenance.begin_key_order(compacted);
    }

    /// Whether a defragmentation is under way. A call of [`Applier::maintain`] that fails
    /// ends it.
    pub fn is_defragmenting(&self) -> bool {
        self.maintenance.is_defragmenting()
    }

    /// Releases all garbage, and returns when it has gone. Appends of other
    /// threads and all reads go on; applying waits.
    pub fn defragment(&mut self, state: &[u8]) -> Result<(), Error> {
        self.begin_defragmentation();
        while self.is_defragmenting() {
            self.maintenance.finish_or_end(&mut self.applied)?;
            self.finish_compaction();
            self.maintain(&mut || state.to_vec())?;
        }
        Ok(())
    }

    /// Begins an export of everything applied so far. `state`: the state blob, as
    /// for a checkpoint. Pieces have about `piece_bytes`; a single longer version has a longer
    /// piece of its own.
    pub fn export(&self, state: Vec<u8>, piece_bytes: usize) -> Export {
        Export::begin(&self.applied.parts, &self.applied.index, state, piece_bytes)
    }

    /// Replaces the whole state by a complete import, at once and for good.
    /// `check` sees its state blob first and may refuse it.
    ///
    /// After [`Error::InstallUncertain`] the engine is closed, because it is unknown
    /// which of the two states lasts: the next opening finds out. After any
    /// other error the old state stays.
    pub fn install(
        &mut self,
        import: Import,
        check: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Installed, Error> {
        install::install(&mut self.applied, &mut self.maintenance, import, check)
    }

    /// Keeps the versions that a hash of revision `at` covers while `compacted` is the last
    /// compaction before it. To be called before the compaction that would drop some of them.
    pub fn hold_versions(&self, at: i64, compacted: i64) -> HeldVersions {
        HeldVersions::new(&self.applied.parts, &self.applied.index, at, compacted)
    }

    /// Ends the engine although there may be other handles: upkeep stops, the
    /// log's end is marked as clean, and the directory can be opened again.
    /// Those handles can still look up and count what is in memory; calls that
    /// need the log fail with [`Error::Closed`].
    pub fn close(&mut self) -> Result<(), Error> {
        let parts = &self.applied.parts;
        self.maintenance.end(&parts.records.lifecycle);
        parts.close()
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.maintenance.end(&self.applied.parts.records.lifecycle);
    }
}
