//! The state machine and what it shares with its readers.
//!
//! ```text
//!   Machine (one thread)                 Shared (everyone)
//!   decided   as of everything           engine    snapshots, values
//!             evaluated                  applied   leases, alarms, compaction
//!   overlay   keys in between            hub       watches
//!   open      the batch being filled
//! ```
//!
//! A command passes three stages: *decided* (evaluated), *sealed* (in a batch on its way to the
//! disk) and *applied* (visible to readers). When the machine loses the lead, decided is set back
//! to applied.
//!
//! Locks: `applied` is held for lookups and for absorbing a batch, never while
//! waiting or while another lock is taken.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Applier, Batch, Change, Commitment, Engine, KeyChange, Recovered, Replayed, Task};
use environment::randomness::Random;
use environment::{Clock, Disk};

use crate::alarm::Alarms;
use crate::apply::Applied;
use crate::bootstrap::{self, Bootstrap};
use crate::hash::CompactedHashes;
use crate::leadership::Sealed;
use crate::lease::Pace;
use crate::member::{MemberChange, Members};
use crate::overlay::Overlay;
use crate::state::StateRecord;
use crate::{Error, Options, Reader, WatchHub, checkpoint};

/// Estimate of the log bytes of a state record.
const STATE_RECORD_BYTES: u64 = 80;

/// Bytes that are reserved in a batch for state records of earlier commands.
const STATE_RECORDS_BYTES: u64 = 4096;

/// Steps of upkeep between two measurements of the used bytes. A measurement takes longer the
/// more segments there are.
const MEASURE_EVERY_STEPS: u32 = 64;

/// The state machine: owned by the replica thread.
#[derive(Debug)]
pub struct Machine {
    pub(crate) shared: Arc<Shared>,
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

/// The state that apply writes and request tasks read.
#[derive(Debug)]
pub(crate) struct Shared {
    pub engine: Engine,
    applied: Mutex<Applied>,
    pub hub: Arc<WatchHub>,
    pub compacted_hashes: CompactedHashes,
    pub options: Options,
    /// Bytes in the log's segments at the last measurement, and those that were applied since.
    used_bytes: AtomicU64,
    /// The empty overlay of request tasks.
    pub no_overlay: Overlay,
}

/// The state after all evaluated commands.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// Newest revision.
    pub revision: i64,
    /// Newest compaction; -1 before the first.
    pub compacted: i64,
    /// Raised alarms.
    pub alarms: Alarms,
    pub members: Arc<Members>,
}

/// Effects of the commands evaluated since the last seal.
#[derive(Debug, Default)]
pub(crate) struct OpenBatch {
    changes: Vec<Change>,
    /// Estimated log bytes of the changes.
    bytes: u64,
    /// Whether the batch is a change of Raft's configuration, which has no other change beside it.
    changes_configuration: bool,
}

/// Estimates the log bytes of a batch.
pub(crate) fn log_bytes_of(batch: &Batch) -> u64 {
    let states = batch.changes.len() - batch.keys().count();
    STATE_RECORD_BYTES * states as u64 + log_bytes(batch.keys())
}

/// Log bytes of key changes.
pub(crate) fn log_bytes<'c>(changes: impl IntoIterator<Item = &'c KeyChange>) -> u64 {
    changes.into_iter().map(KeyChange::log_bytes).sum()
}

impl OpenBatch {
    pub fn extend(&mut self, changes: Vec<KeyChange>) {
        self.bytes += log_bytes(&changes);
        self.changes.extend(changes.into_iter().map(Change::Key));
    }

    pub fn push_state(&mut self, record: &StateRecord) {
        self.bytes += STATE_RECORD_BYTES;
        self.changes.push(record.encode());
    }

    pub fn push_member_change(&mut self, change: &MemberChange) {
        if change.changes_configuration() {
            assert!(
                self.changes.is_empty(),
                "a change of the configuration has a batch of its own: seal first"
            );
            self.changes_configuration = true;
        }
        self.push_state(&StateRecord::Member(change.clone()));
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Shared {
    /// Locks leases, alarms, compaction and members. The guard must be held briefly.
    pub fn applied(&self) -> MutexGuard<'_, Applied> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that count against the quota.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Most log bytes of one command's changes without its deletions: half of a batch, so that a
    /// batch which is not full has room for any command. A batch is half a segment at most, and
    /// segments may be smaller than the options say, because a directory keeps the segment size
    /// it was created with.
    pub fn command_bytes_max(&self) -> u64 {
        let half_segment_bytes = self.engine.batch_log_bytes_max() / 2;
        self.options.engine.batch_bytes_max.min(half_segment_bytes) / 2
    }

    /// Most log bytes of one command's changes with its deletions: the part of a segment that a
    /// batch which is not full leaves free. It does not depend on the options, so that a lease
    /// that was filled up to this limit can end after the options have changed.
    pub fn deletion_bytes_max(&self) -> u64 {
        self.engine.batch_log_bytes_max() / 4 * 3 - STATE_RECORDS_BYTES
    }

    pub fn update_used_bytes(&self) {
        self.used_bytes
            .store(self.engine.status().log_bytes, Ordering::Relaxed);
    }

    /// Adds written bytes to the used bytes until the next measurement.
    pub fn count_used(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The state after all applied batches.
    pub fn decided(&self) -> Decided {
        let revision = self.engine.snapshot().revision();
        let applied = self.applied();
        Decided {
            revision,
            compacted: applied.compacted,
            alarms: applied.alarms.clone(),
            members: Arc::clone(&applied.members),
        }
    }
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
        let mut applied = Applied::new(Arc::clone(&clock));
        let (engine, mut applier, mut recovered) =
            Engine::open(disk, directory, options.engine.clone(), &mut |replayed| {
                let outcome = match replayed {
                    Replayed::Checkpoint(blob) => checkpoint::decode(blob, &mut applied),
                    Replayed::Batch(batch) => applied.absorb(batch),
                };
                outcome.map_err(|error| engine::Error::Replay(error.to_string()))
            })?;
        if applied.compacted >= 0 {
            applier.compact(applied.compacted);
        }
        if bootstrap::is_new(&recovered) && !options.initial_members.is_empty() {
            let bootstrap = Bootstrap {
                engine: &engine,
                applier: &mut applier,
                applied: &mut applied,
                commitment: options.engine.commitment,
            };
            bootstrap.run(&mut recovered, &options.initial_members)?;
        }
        let mut machine = Machine::start(engine, applier, applied, options, clock)?;
        let last = recovered.entries.last().map(|entry| entry.index);
        machine.last_at_start = last.unwrap_or(recovered.base.0);
        let reader = Reader {
            shared: Arc::clone(&machine.shared),
        };
        Ok((machine, reader, recovered))
    }

    fn start(
        engine: Engine,
        applier: Applier,
        applied: Applied,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Machine, Error> {
        let random = match options.lease_id_seed {
            Some(seed) => Random::from_seed(seed),
            None => Random::from_system().map_err(Error::randomness)?,
        };
        let pace = Pace::new(options.lease_revocations_per_second, clock.now());
        let hub = Arc::new(WatchHub::new(engine.clone(), options.watch));
        let alone = options.engine.commitment == Commitment::Alone;
        let shared = Arc::new(Shared {
            engine,
            applied: Mutex::new(applied),
            hub,
            compacted_hashes: CompactedHashes::default(),
            options,
            used_bytes: AtomicU64::new(0),
            no_overlay: Overlay::default(),
        });
        shared.update_used_bytes();
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
            last_at_start: 0,
        };
        if alone {
            machine.promote(Duration::ZERO);
        }
        Ok(machine)
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
}

/// Ends the hashing thread, which keeps the directory open, and wakes the tasks that wait for a
/// lease's end.
impl Drop for Machine {
    fn drop(&mut self) {
        self.end_hashing();
        self.shared.applied().lessor.demote();
    }
}

impl Shared {
    /// Encodes the state that a checkpoint keeps besides keys.
    pub fn checkpoint_state(&self) -> Vec<u8> {
        let revision = self.engine.snapshot().revision();
        checkpoint::encode(&self.applied(), revision)
    }
}
