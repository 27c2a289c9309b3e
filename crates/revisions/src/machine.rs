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
//! Three points in time, in order: *applied* (readers see it), *sealed* (on
//! its way to the disk), *decided* (evaluated). Losing office moves decided
//! back to applied.
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

/// What a state record takes in the log at most.
const STATE_RECORD_BYTES: u64 = 80;

/// Room for what a batch holds besides the changes of keys: state records of
/// commands that did not fill it.
const STATE_RECORDS_BYTES: u64 = 4096;

/// Steps of upkeep between two looks at what the segments really hold, which
/// takes longer the more of them there are.
const MEASURE_EVERY_STEPS: u32 = 64;

/// The state machine: owned by the replica thread.
#[derive(Debug)]
pub struct Machine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) applier: Applier,
    pub(crate) overlay: Overlay,
    pub(crate) decided: Decided,
    pub(crate) open: OpenBatch,
    /// Sealed and not applied, oldest first.
    pub(crate) sealed: VecDeque<Sealed>,
    /// Commands are decided here.
    pub(crate) leading: bool,
    /// Steps of upkeep since the used bytes were measured.
    unmeasured_steps: u32,
    pub(crate) pace: Pace,
    pub(crate) random: Random,
    pub(crate) clock: Arc<dyn Clock>,
    /// A thread that hashes what physical compactions let go.
    pub(crate) hashing: Option<Task<()>>,
    /// Index of the last batch that was in the log when it was opened.
    pub(crate) last_at_start: u64,
}

/// What request tasks read, and apply writes.
#[derive(Debug)]
pub(crate) struct Shared {
    pub engine: Engine,
    applied: Mutex<Applied>,
    pub hub: Arc<WatchHub>,
    pub compacted_hashes: CompactedHashes,
    pub options: Options,
    /// Bytes in the log's segments: measured now and then, and what has been
    /// applied since.
    used_bytes: AtomicU64,
    /// What request tasks look through: nothing pending.
    pub no_overlay: Overlay,
}

/// As of everything evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// Newest revision.
    pub revision: i64,
    /// Newest compaction; -1 before the first.
    pub compacted: i64,
    /// Raised alarms.
    pub alarms: Alarms,
    /// Who belongs to the cluster.
    pub members: Arc<Members>,
}

/// Effects of the commands evaluated since the last seal.
#[derive(Debug, Default)]
pub(crate) struct OpenBatch {
    changes: Vec<Change>,
    /// What it will take in the log.
    bytes: u64,
    /// It holds a change of Raft's configuration, and nothing else.
    changes_configuration: bool,
}

/// About what a batch takes in the log.
pub(crate) fn log_bytes_of(batch: &Batch) -> u64 {
    let states = batch.changes.len() - batch.keys().count();
    STATE_RECORD_BYTES * states as u64 + log_bytes(batch.keys())
}

/// What key changes will take in the log.
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
    /// Leases, alarms, compaction. Hold it for a moment only.
    pub fn applied(&self) -> MutexGuard<'_, Applied> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that count against the quota.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// What one command's effects may take in the log, its deletions left
    /// aside: half of a batch, so that a batch which is not full has room for
    /// any command. A batch is half a segment at most, and segments may be
    /// smaller than the options say: a directory keeps those it was made with.
    pub fn command_bytes_max(&self) -> u64 {
        let half_segment_bytes = self.engine.batch_log_bytes_max() / 2;
        self.options.engine.batch_bytes_max.min(half_segment_bytes) / 2
    }

    /// The same with its deletions: what a segment holds besides a batch that
    /// is not full, whatever the options say. A lease that was filled up to
    /// here under other options still ends.
    pub fn deletion_bytes_max(&self) -> u64 {
        self.engine.batch_log_bytes_max() / 4 * 3 - STATE_RECORDS_BYTES
    }

    pub fn update_used_bytes(&self) {
        self.used_bytes
            .store(self.engine.status().log_bytes, Ordering::Relaxed);
    }

    /// Bytes have been written that are not measured yet.
    pub fn count_used(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// As of everything applied.
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
    /// Opens the directory, recovers everything in it and takes its lock. A new
    /// directory starts with `options.initial_members`, if there are any.
    /// Also returns what Raft has to know of the log; the members it has to
    /// know are [`Reader::members`].
    ///
    /// Where the machine leads at once ([`Machine::promote`]), leases start
    /// with their full time to live, as after an election.
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

    /// Closes the open batch. `None` when nothing was written.
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

    /// A step of sweeping up after compactions, checkpointing and reclaim when
    /// due; cheap when nothing is.
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

    /// Whether every call of [`Machine::maintain`] gets on with a sweep.
    pub fn is_sweeping(&self) -> bool {
        self.applier.is_sweeping()
    }

    /// Whether the next call of [`Machine::maintain`] gets on with something, and
    /// need not wait for a thread to end.
    pub fn has_upkeep_to_do(&self) -> bool {
        self.applier.has_a_step_to_do()
    }

    /// The compaction up to which what compactions let go has gone: what a
    /// physical one waits for. -1 before the first.
    pub fn swept(&self) -> i64 {
        self.applier.swept()
    }

    /// Closes the log and lets the directory go, although readers may be left:
    /// they can count and look at leases, and are told for the rest.
    pub fn close(&mut self) -> Result<(), Error> {
        self.demote();
        self.end_hashing();
        Ok(self.applier.close()?)
    }

    /// Keeps the log from this entry on, for members that are behind.
    pub fn keep_entries(&mut self, from: Option<&engine::Entry>) {
        self.applier.keep_entries(from);
    }

    /// Writes a checkpoint now and waits for it.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let state = self.shared.checkpoint_state();
        Ok(self.applier.checkpoint(&state)?)
    }

    /// Has [`Machine::maintain`] reclaim all that is garbage at this moment.
    pub fn begin_defragmentation(&mut self) {
        self.applier.begin_defragmentation();
    }

    /// Whether garbage is left of what [`Machine::begin_defragmentation`] was for.
    /// False after a call of [`Machine::maintain`] that has failed: then it ended
    /// there.
    pub fn is_defragmenting(&self) -> bool {
        self.applier.is_defragmenting()
    }

    /// The open batch has as much in it as a batch should: seal it before the
    /// next command. Whatever a single command may still add, fits.
    pub fn batch_is_full(&self) -> bool {
        self.open_is_membership() || self.open.bytes >= self.shared.command_bytes_max()
    }

    /// Changes in the open batch so far.
    pub fn open_changes(&self) -> usize {
        self.open.changes.len()
    }

    /// The open batch changes nothing so far.
    pub fn open_is_empty(&self) -> bool {
        self.open.changes.is_empty()
    }

    /// The open batch is a change of Raft's configuration: nothing else may
    /// enter it.
    pub fn open_is_membership(&self) -> bool {
        self.open.changes_configuration
    }
}

/// Who waits for a lease's end would wait for ever, and a thread that hashes
/// holds the directory.
impl Drop for Machine {
    fn drop(&mut self) {
        self.end_hashing();
        self.shared.applied().lessor.demote();
    }
}

impl Shared {
    /// What a checkpoint keeps besides keys.
    pub fn checkpoint_state(&self) -> Vec<u8> {
        let revision = self.engine.snapshot().revision();
        checkpoint::encode(&self.applied(), revision)
    }
}
