//! The state machine and what it shares with its readers.
//!
//! ```text
//!   Machine (one thread)                 MachineState (all threads)
//!   decided   as of everything           engine    snapshots, values
//!             evaluated                  applied   leases, alarms, compaction
//!   overlay   keys in between            hub       watches
//!   open      the batch being filled
//! ```
//!
//! A command passes three stages: *decided* (evaluated), *sealed* (in a batch on its way to the
//! disk) and *applied* (visible to readers). When the machine loses the lead, decided is set back
//! to applied.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Appended, Applier, Batch, Change, Commitment, Engine, Export, Import, ImportNotice, Installed,
    Recovered, Replayed, StateHash, Task,
};
use environment::randomness::Random;
use environment::{Clock, Disk, Instant};
use etcd_api::etcdserverpb::LeaseRevokeRequest;

use crate::apply::{AppliedState, LastAbsorbed};
use crate::auth_record;
use crate::lease::Pace;
use crate::machine_state::{Decided, MachineState};
use crate::open_batch::{OpenBatch, Sealed};
use crate::overlay::Overlay;
use crate::state::StateRecord;
use crate::{Command, Error, Options, Reader, checkpoint};
use crate::{bootstrap, forced_cluster, users};

/// Steps of upkeep between two measurements of the used bytes. A measurement takes longer the
/// more segments there are.
const MEASURE_EVERY_STEPS: u32 = 64;

/// The state machine: owned by the replica thread.
#[derive(Debug)]
pub struct Machine {
    pub(crate) shared: Arc<MachineState>,
    pub(crate) applier: Applier,
    pub(crate) overlay: Overlay,
    pub(crate) decided: Decided,
    pub(crate) open: OpenBatch,
    /// Batches that are sealed and not applied, oldest first.
    pub(crate) sealed: VecDeque<Sealed>,
    /// Whether this machine leads and may evaluate commands.
    pub(crate) leading: bool,
    /// Steps of upkeep since the used bytes were measured.
    unmeasured_steps: u32,
    pub(crate) pace: Pace,
    pub(crate) random: Random,
    pub(crate) clock: Arc<dyn Clock>,
    /// The thread that hashes the versions that physical compactions are about to remove.
    pub(crate) hashing: Option<Task<()>>,
    /// Index of the last entry in the log when it was opened.
    pub(crate) last_at_start: u64,
}

impl Machine {
    /// Opens the directory, takes its lock and recovers its state. A new directory starts with
    /// `options.initial_members`, if there are any. Also returns the part of the log that Raft
    /// needs; the members that it needs are [`Reader::members`].
    ///
    /// If the machine leads at once ([`Machine::promote`]), leases start with their full time to
    /// live, as after an election.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<(Machine, Reader, Recovered), Error> {
        let mut applied = AppliedState::new(Arc::clone(&clock));
        let mut replay = |replayed: Replayed<'_>| applied.replay(&replayed);
        let (engine, mut applier, mut recovered) =
            Engine::open(disk, directory, options.engine.clone(), &mut replay)?;
        if applied.compacted >= 0 {
            applier.compact(applied.compacted);
        }
        if bootstrap::is_new(&recovered) && !options.initial_members.is_empty() {
            bootstrap::run(&mut applier, &mut applied, &options, &mut recovered)?;
        } else if options.forces_new_cluster
            && options.engine.commitment == Commitment::Quorum
            && !bootstrap::is_new(&recovered)
        {
            let (own, members) = (options.member_id, Arc::clone(&applied.members));
            forced_cluster::run(&engine, &members, own, &mut recovered)?;
        }
        let random = match options.lease_id_seed {
            Some(seed) => Random::from_seed(seed),
            None => Random::from_system().map_err(Error::randomness)?,
        };
        let pace = Pace::new(options.lease_revocations_per_second, clock.now());
        let alone = options.engine.commitment != Commitment::Quorum;
        let last = recovered.entries.last().map(|entry| entry.index);
        let shared = Arc::new(MachineState::new(engine, applied, options));
        let mut machine = Machine {
            decided: shared.decided(),
            shared,
            applier,
            overlay: Overlay::default(),
            open: OpenBatch::default(),
            sealed: VecDeque::new(),
            leading: false,
            unmeasured_steps: 0,
            pace,
            random,
            clock,
            hashing: None,
            last_at_start: last.unwrap_or(recovered.base.0),
        };
        if alone {
            machine.promote(Duration::ZERO);
        }
        let reader = Reader {
            shared: Arc::clone(&machine.shared),
        };
        Ok((machine, reader, recovered))
    }

    /// Closes the open batch and returns it; `None` if it is empty.
    pub fn seal(&mut self, term: u64, index: u64) -> Option<Batch> {
        let open = std::mem::take(&mut self.open);
        if open.changes.is_empty() {
            return None;
        }
        assert!(index > 0, "index 0 means nothing in the log");
        assert!(
            !open.changes_configuration || open.changes.len() == 1,
            "a change of the configuration stays alone in its batch"
        );
        self.sealed.push_back(Sealed {
            term,
            index,
            bytes: open.bytes,
            changes_configuration: open.changes_configuration,
        });
        Some(Batch {
            term,
            index,
            changes: open.changes,
        })
    }

    /// Does one step of sweeping, checkpointing and reclaim, if any is due; cheap otherwise.
    pub fn maintain(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let was_defragmenting = self.is_defragmenting();
        self.applier.maintain(&mut || shared.checkpoint_state())?;
        self.unmeasured_steps += 1;
        let all_gone = was_defragmenting && !self.is_defragmenting();
        if all_gone || self.unmeasured_steps >= MEASURE_EVERY_STEPS {
            self.unmeasured_steps = 0;
            shared.update_used_bytes();
        }
        self.take_hashes()
    }

    /// Returns whether a sweep is under way, which each call of [`Machine::maintain`] advances.
    pub fn is_sweeping(&self) -> bool {
        self.applier.is_sweeping()
    }

    /// Returns whether the next call of [`Machine::maintain`] has a step to do, and does not only
    /// wait for the end of a thread.
    pub fn has_upkeep_to_do(&self) -> bool {
        self.applier.has_a_step_to_do()
    }

    /// The newest compaction of which all versions have been removed; a physical compaction waits
    /// for it. -1 before the first.
    pub fn swept(&self) -> i64 {
        self.applier.swept()
    }

    /// Before [`Machine::close`]: writes a checkpoint if the next start would replay much of the log
    /// without it. An error leaves the store as it is.
    pub fn checkpoint_for_opening(&mut self) -> Result<(), Error> {
        let shared = &self.shared;
        let state = &mut || shared.checkpoint_state();
        Ok(self.applier.checkpoint_for_opening(state)?)
    }

    /// Closes the log and releases the directory, even if there are readers left: they can still
    /// count keys and list leases, and their other calls fail.
    pub fn close(&mut self) -> Result<(), Error> {
        self.demote();
        self.end_hashing();
        Ok(self.applier.close()?)
    }

    /// Keeps the entries of the log from this one on, for members that are behind.
    pub fn keep_entries(&mut self, from: Option<&engine::Entry>) {
        self.applier.keep_entries(from);
    }

    /// Takes over another member's sum of effects; see [`Applier::take_over_effects`].
    pub fn take_over_effects(&mut self, theirs: &StateHash) -> bool {
        self.applier.take_over_effects(theirs)
    }

    /// See [`Applier::spoil_in_memory`]: for tests.
    #[doc(hidden)]
    pub fn spoil_in_memory(&mut self, key: &[u8], fault: engine::MemoryFault) -> bool {
        self.applier.spoil_in_memory(key, fault)
    }

    /// Writes a checkpoint now and waits for it.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let state = self.shared.checkpoint_state();
        Ok(self.applier.checkpoint(&state)?)
    }

    /// Makes [`Machine::maintain`] reclaim all present garbage.
    pub fn begin_defragmentation(&mut self) {
        self.applier.begin_defragmentation();
    }

    /// Returns whether the defragmentation of [`Machine::begin_defragmentation`] has garbage left
    /// to reclaim. A failed call of [`Machine::maintain`] ends it.
    pub fn is_defragmenting(&self) -> bool {
        self.applier.is_defragmenting()
    }

    /// Returns whether the open batch must be sealed before the next command. A batch that is not
    /// full has room for any single command.
    pub fn batch_is_full(&self) -> bool {
        self.open_is_membership() || self.open.bytes >= self.shared.command_bytes_max()
    }

    /// Number of changes in the open batch.
    pub fn open_changes(&self) -> usize {
        self.open.changes.len()
    }

    /// Returns whether the open batch has no change.
    pub fn open_is_empty(&self) -> bool {
        self.open.changes.is_empty()
    }

    /// Returns whether the open batch is a change of Raft's configuration, which must stay alone
    /// in it.
    pub fn open_is_membership(&self) -> bool {
        self.open.changes_configuration
    }

    /// Makes a durable and committed batch visible. Batches that were sealed here must be applied
    /// in the order of sealing; other batches, in the order of the log, are allowed only while
    /// this machine does not lead. The caller has checked that this release can read the records
    /// ([`crate::check_records`]).
    pub fn apply(&mut self, batch: Batch, appended: Appended) {
        self.check_order(&batch);
        let changes_users = auth_record::changes_users(&batch);
        if changes_users {
            self.shared.users.begin_change();
        }
        self.applier.apply(&batch, &appended);
        let before = self.shared.applied().compacted;
        let compacted = self.remember(&batch);
        if changes_users {
            self.shared.publish_users();
        }
        if let Some(revision) = compacted {
            self.hold_for_hashes(&batch, before);
            self.applier.compact(revision);
        }
        self.shared.hub.publish(&batch);
        self.forget(&batch);
        self.count_applied(&batch);
        let nothing_left = !self.has_unapplied();
        assert!(
            !nothing_left || self.overlay.is_empty(),
            "left over: {:?}",
            self.overlay
        );
    }

    /// Updates leases and alarms; returns the newest compaction in the batch.
    fn remember(&self, batch: &Batch) -> Option<i64> {
        let mut applied = self.shared.applied();
        let before = applied.compacted;
        applied
            .absorb(batch)
            .expect("records that were checked before they entered the log");
        assert!(
            before <= applied.compacted,
            "compaction went back from {before}"
        );
        assert!(
            !self.leading || applied.compacted <= self.decided.compacted,
            "compacted but never decided"
        );
        Some(applied.compacted).filter(|&compacted| compacted != before)
    }

    /// Removes from the overlay the versions and leases that this batch has applied.
    fn forget(&mut self, batch: &Batch) {
        for change in &batch.changes {
            match change {
                Change::Key(change) => self.overlay.key_applied(&change.key, change.revision),
                Change::State { kind, payload } => {
                    if let Ok(record) = StateRecord::decode(*kind, payload) {
                        self.forget_lease(record);
                    }
                }
            }
        }
    }

    fn forget_lease(&mut self, record: StateRecord) {
        if let StateRecord::Granted { id, .. } | StateRecord::Revoked { id } = record {
            self.overlay.lease_applied(id);
        }
    }

    /// Makes a command that this member itself asks for pass while users are checked.
    #[must_use]
    pub fn own_command(&self, command: Command) -> Command {
        self.shared.users.own_command(command)
    }

    /// Holds the versions that the physical compactions of a batch would remove, so that they can
    /// be hashed. A batch that was in the log at the start may have been applied and swept before
    /// the restart, so for such a batch nothing is held and no hash is kept.
    pub(crate) fn hold_for_hashes(&self, batch: &Batch, mut compacted: i64) {
        if batch.index <= self.last_at_start {
            return;
        }
        for change in &batch.changes {
            if let Change::State { kind, payload } = change
                && let Ok(StateRecord::Compacted { revision, physical }) =
                    StateRecord::decode(*kind, payload)
            {
                // etcd accepts a compaction to 0, which has nothing to hash.
                let is_hashed = physical || self.shared.options.hash_every_compaction;
                if is_hashed && revision > 0 {
                    let held = self.applier.hold_versions(revision, compacted);
                    self.shared.compacted_hashes.add(held);
                }
                compacted = revision;
            }
        }
    }

    /// Starts the thread that hashes held versions, if there are any and none runs.
    pub(crate) fn take_hashes(&mut self) -> Result<(), Error> {
        if self
            .hashing
            .as_ref()
            .is_some_and(|task| !task.is_finished())
        {
            return Ok(());
        }
        let ended = self.hashing.take();
        if ended.is_some_and(Task::has_panicked)
            && let Some(held) = self.shared.compacted_hashes.due()
        {
            tracing::warn!(revision = held.at(), "hashing it ended in a panic");
            self.shared.compacted_hashes.note(held.at(), None);
        }
        if self.shared.compacted_hashes.due().is_some() {
            let shared = Arc::clone(&self.shared);
            let worker = shared.options.engine.log.worker;
            let body = move || {
                shared.compacted_hashes.take();
                Ok(())
            };
            self.hashing = Some(Task::start(worker, "hash-compacted", body)?);
        }
        Ok(())
    }

    /// Stops the hashing thread, if there is one, and waits for its end.
    pub(crate) fn end_hashing(&mut self) {
        let hashes = &self.shared.compacted_hashes;
        hashes.stop();
        if let Some(task) = self.hashing.take()
            && task.has_panicked()
        {
            tracing::warn!("hashing a compacted revision ended in a panic");
        }
    }

    /// Returns commands that this machine asks for itself, for the caller to propose: those that
    /// revoke expired leases, on average at most `lease_revocations_per_second` of them in a second,
    /// and the one that picks the key of tokens after a restore.
    pub fn own_commands(&mut self, now: Instant) -> Vec<Command> {
        let limit = self.pace.allowance(now);
        let retry = self.shared.options.lease_revocation_retry;
        let ids = self.shared.applied().take_expired(now, retry, limit);
        self.pace.take(ids.len());
        let revoke = |id| Command::LeaseRevoke(LeaseRevokeRequest { id });
        let revocations = ids.into_iter().map(revoke);
        users::pick_secret(&self.decided.auth)
            .into_iter()
            .chain(revocations)
            .collect()
    }

    /// Begins an export of the applied state, in pieces of about `piece_bytes` bytes. This call
    /// costs as much as the beginning of a checkpoint; another thread reads the pieces. The
    /// snapshot has the members of this moment.
    pub fn export(&self, piece_bytes: usize) -> Export {
        let state = self.shared.checkpoint_state();
        self.applier.export(state, piece_bytes)
    }

    /// Begins to receive a snapshot. The machine continues to work until it is installed.
    pub fn import(&self, notice: ImportNotice) -> Result<Import, Error> {
        Ok(self.shared.engine.import(notice)?)
    }

    /// Replaces the whole state by a complete import, atomically and durably. Readers and watches
    /// stay valid and see the new state; the entries of the log do not count any more. Must not
    /// be called while this machine leads.
    ///
    /// After [`engine::Error::InstallUncertain`] the machine is closed; after any other error it
    /// continues with its old state.
    pub fn install(&mut self, import: Import) -> Result<Installed, Error> {
        assert!(!self.leading, "what was decided here would be lost");
        let info = import.info();
        let compacted = info.map(|info| info.compacted);
        let mut applied = AppliedState::new(Arc::clone(&self.clock));
        applied.last = info.map_or_else(LastAbsorbed::default, |info| LastAbsorbed {
            index: info.index,
            term: info.term,
            revision: info.revision,
        });
        self.shared.users.begin_change();
        let installed = self.applier.install(import, &mut |blob| {
            let decoded = checkpoint::decode(blob, &mut applied);
            decoded.map_err(|error| engine::Error::Replay(error.to_string()))?;
            if Some(applied.compacted) == compacted {
                return Ok(());
            }
            let what = "its state and its versions are of different compactions";
            Err(engine::Error::Replay(what.into()))
        });
        if installed.is_ok() {
            let mut now = self.shared.applied();
            applied.lessor.succeed(&now.lessor);
            *now = applied;
        }
        self.shared.publish_users();
        let installed = installed?;
        self.shared.hub.skip_to(installed.revision);
        self.abandon();
        self.shared.update_used_bytes();
        Ok(installed)
    }
}

/// Ends the hashing thread, which keeps the directory open, and wakes the tasks that wait for a
/// lease's end.
impl Drop for Machine {
    fn drop(&mut self) {
        self.end_hashing();
        self.shared.applied().lessor.demote();
    }
}
