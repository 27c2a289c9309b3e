//! Opening: the last checkpoint in bulk, then the tail of the log.
//!
//! ```text
//!   *.checkpoint   newest usable ──► trees, accounting, blob ──► Replayed::Checkpoint
//!   log            frames after it ──► trees, accounting     ──► Replayed::Batch
//!                  checked: no revision is missing, the end is not before
//!                  what the checkpoint has seen
//! ```
//!
//! Without history the log is read before the entries of the checkpoint, which are then loaded with
//! the last change of each key (docs/decisions/0040-restart-of-many-keys.md).
//!
//! A damaged checkpoint is passed over for the one before, if everything that
//! one points at still exists, and without any for the whole log, if that still
//! begins at its beginning (`whole_log.rs`). Otherwise opening is refused, because
//! leaving out a checkpoint would silently leave out what only it knows.

use crate::accounting::Accounting;
use crate::applied::Applied;
use crate::apply::{Index, key_changes, version_entry};
use crate::checkpoint::files;
use crate::counters::Counters;
use crate::damage::Damage;
use crate::damaged_group;
use crate::directory::{self, Directory};
use crate::last_changes::{ChangeRun, LastChanges};
use crate::lifecycle::Lifecycle;
use crate::log_view::LogView;
use crate::maintenance::Maintenance;
use crate::parts::Parts;
use crate::published::Published;
use crate::read::Records;
use crate::replay::{self, Content, DecodedGroup, Decoder, Put};
use crate::state_hash::Sums;
use crate::transfer::Transfers;
use crate::trees::{CURRENT, EMPTY_REVISION, NEVER_COMPACTED, TREES};
use crate::{
    Batch, Commitment, Entry, Error, HardState, LogOptions, Options, Replayed, Unapplied, Worker,
    whole_log,
};
use checkpoints::{Checkpoints, Halt};
use environment::{DirectoryLock, Disk};
use ordered_index::Reader;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use value_log::{Appended, Group, Log, Position, Seal, SegmentKind};

mod checkpoints;
pub mod repair;

/// Names of files that other stores leave in a directory.
const FOREIGN: [&str; 6] = ["CURRENT", "IDENTITY", "data.mdb", "db", "0.wal", "snap"];
const FOREIGN_SUFFIXES: [&str; 5] = [".sst", ".ldb", ".wal", ".snap", ".bolt"];

/// An open engine: what all handles share, what the applying thread owns, and what was found.
pub(crate) struct Opened {
    pub(crate) applied: Applied,
    pub(crate) maintenance: Maintenance,
    pub(crate) recovered: Recovered,
}

/// Without history: changes behind a checkpoint that is in the index are applied together up to
/// this number, because the index is much larger than they are.
const CHANGES_MAX: usize = 1 << 19;
const CHANGES_MIN: usize = 1 << 10;
/// One change for this number of keys of the index: they take less than a tenth of its memory.
const KEYS_FOR_EACH_CHANGE: usize = 16;

type Replay<'a> = &'a mut dyn FnMut(Replayed<'_>) -> Result<(), Error>;

/// State of the store and damage that opening it found.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Last main revision (1: an empty store).
    pub revision: i64,
    /// Term of the last batch.
    pub applied_term: u64,
    /// Index of the last batch.
    pub applied_index: u64,
    /// Number of this opening, from 1: no two openings have the same, even after a crash.
    pub opening: u32,
    /// True when an unfinished group was cut off the end of the log.
    pub torn: bool,
    /// True when the last user closed the log.
    pub clean: bool,
    /// Batches replayed after the checkpoint.
    pub batches: u64,
    /// Why a newer checkpoint was passed over, if one was.
    pub damaged_checkpoint: Option<String>,
    /// True when no checkpoint was usable and the state comes from the log alone: from
    /// its first frame on, without a gap. A member of a cluster may have had a snapshot
    /// besides, and has to ask the others what it acknowledged.
    pub rebuilt: bool,
    /// The newest hard state. Its `commit` is at least the applied index.
    pub hard_state: HardState,
    /// Index and term of the entry before [`Recovered::entries`].
    pub base: (u64, u64),
    /// The entries in the log from there on, without a gap.
    pub entries: Vec<Entry>,
    /// The last of these entries: those that, with [`Commitment::Quorum`], are not known to
    /// be committed.
    pub unapplied: Vec<Unapplied>,
}

pub(crate) fn open(
    disk: Arc<dyn Disk>,
    directory: &Path,
    options: Options,
    replay: Replay<'_>,
) -> Result<Opened, Error> {
    disk.create_directories(directory)
        .map_err(Error::disk("create", directory))?;
    // Before the lock, which would leave a file of ours in it.
    refuse_foreign(directory, &files::list(&*disk, directory)?)?;
    let lock = take_lock(&*disk, directory)?;
    let mut options = options;
    options.log.reserve_bytes =
        directory::reserve_bytes(&*disk, directory, options.log.reserve_bytes);
    files::remove(&*disk, directory, files::PARTIAL)?;
    files::remove(&*disk, directory, files::INCOMING)?;
    let names = files::list(&*disk, directory)?;
    let mut recovery = Recovery::new(directory, options, &names);
    let log = recovery.with_a_checkpoint(&*disk, replay, |recovery, replay| {
        recovery.replay_log(Arc::clone(&disk), replay)
    })?;
    recovery.apply_what_was_applied(replay)?;
    recovery.apply_what_a_sole_voter_has(replay)?;
    recovery.apply_gathered();
    recovery.check_end()?;
    Ok(recovery.finish(log, disk, lock))
}

fn take_lock(disk: &dyn Disk, directory: &Path) -> Result<Box<dyn DirectoryLock>, Error> {
    disk.lock_directory(directory)
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::DirectoryInUse {
                directory: directory.into(),
                holder: error.to_string(),
            },
            _ => Error::disk("lock", directory)(error),
        })
}

fn refuse_foreign(directory: &Path, names: &[String]) -> Result<(), Error> {
    let foreign = |name: &&String| {
        FOREIGN.contains(&name.as_str())
            || FOREIGN_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
    };
    match names.iter().find(foreign) {
        Some(file) => Err(Error::Foreign {
            directory: directory.into(),
            file: file.clone(),
        }),
        None => Ok(()),
    }
}

struct Recovery<'a> {
    directory: &'a Path,
    index: Index,
    reader: Reader,
    accounting: Accounting,
    found: Recovered,
    checkpoints: Checkpoints,
    replay_from: Option<Position>,
    log_floor: i64,
    options: Options,
    /// Read from the log, not known to be committed.
    unapplied: VecDeque<Unapplied>,
    /// Damaged records that are proved: place, kind and payload.
    mended: Vec<(Position, u8, Vec<u8>)>,
    /// Of a store that keeps no history: passed, and not in the index yet.
    gathered: LastChanges,
}

impl<'a> Recovery<'a> {
    /// Nothing restored yet, in a directory with files of these names.
    fn new(directory: &'a Path, options: Options, names: &[String]) -> Recovery<'a> {
        assert!(
            options.keeps_history || options.commitment == Commitment::Alone,
            "a log in which batches overrule others needs its entries"
        );
        let (writer, reader) = ordered_index::new(TREES);
        let index = Index {
            writer,
            revision: EMPTY_REVISION,
            compacted: NEVER_COMPACTED,
            applied_term: 0,
            applied_index: 0,
            applied_position: Position::NONE,
            sums: Sums {
                off: !options.state_hash,
                ..Sums::default()
            },
        };
        Recovery {
            directory,
            index,
            reader,
            accounting: Accounting::default(),
            found: Recovered::default(),
            checkpoints: Checkpoints::among(names),
            replay_from: None,
            log_floor: 0,
            options,
            unapplied: VecDeque::new(),
            mended: Vec::new(),
            gathered: LastChanges::default(),
        }
    }

    fn replay_log(&mut self, disk: Arc<dyn Disk>, replay: Replay<'_>) -> Result<Log, Halt> {
        let decoder = Decoder {
            keys_alone: !self.options.keeps_history && !self.options.state_hash,
            ..self.decoder()
        };
        let (log_options, replay_from) = (log_options(&self.options), self.replay_from);
        let read = |put: &mut Put<'_>| replay::read(disk, decoder, log_options, replay_from, put);
        let has_two_threads = has_two_threads(self.options.log.worker);
        let take = |group| {
            self.take(group, replay)?;
            self.load_if_much_waits().map_err(Halt::Unusable)
        };
        let walked = if has_two_threads {
            replay::on_two_threads(read, take)
        } else {
            replay::on_one_thread(read, take)
        };
        let walked = walked.and_then(|walked| Ok(walked?));
        if matches!(&walked, Err(Halt::Refused(error)) if error.is_damage()) {
            // Behind an older checkpoint the log may be sound.
            self.load_begun()?;
        }
        let walked = walked?;
        // Before the log is open: until then nothing is written.
        self.load_begun()?;
        let (log, recovered) = walked.open().map_err(replay::of_log)?;
        self.found.opening = recovered.epoch;
        self.found.torn = recovered.torn;
        self.found.clean = recovered.clean;
        Ok(log)
    }

    fn decoder(&self) -> Decoder<'a> {
        Decoder {
            directory: self.directory,
            applied_index: self.checkpoints.applied_index,
            keys_alone: false,
        }
    }

    fn replay_group(&mut self, group: &Group<'_>, replay: Replay<'_>) -> Result<(), Error> {
        let decoded = self.decoder().decode(group)?;
        self.take(decoded, replay)
    }

    fn take(&mut self, group: DecodedGroup, replay: Replay<'_>) -> Result<(), Error> {
        self.mended.extend(group.mended);
        match group.content {
            Content::HardStates(states) => {
                let mut state = self.accounting.hard_state.lock();
                states.into_iter().for_each(|newer| state.absorb(newer));
            }
            Content::Entry {
                entry,
                state,
                change,
            } => {
                self.enter(entry)?;
                let mut hard_state = self.accounting.hard_state.lock();
                if let Some(state) = state {
                    hard_state.absorb(state);
                }
                let Some(change) = change.filter(|_| entry.index > self.index.applied_index) else {
                    return Ok(());
                };
                if self.options.commitment == Commitment::Alone {
                    hard_state.commit = entry.index;
                }
                self.unapplied.push_back(*change);
            }
            Content::Keys {
                entry,
                mains,
                changes,
            } => return self.take_keys(entry, mains, &changes),
        }
        self.apply_committed(replay)
    }

    /// Applies an entry of keys alone, of a store without history.
    fn take_keys(
        &mut self,
        entry: Entry,
        mains: (i64, i64),
        changes: &ChangeRun,
    ) -> Result<(), Error> {
        self.enter(entry)?;
        if entry.index <= self.index.applied_index {
            return Ok(());
        }
        self.accounting.hard_state.lock().commit = entry.index;
        self.check_next(Some(mains))?;
        self.gathered.absorb(changes);
        let number = (entry.term, entry.index);
        self.index
            .pass_entry(&self.accounting, number, Some(mains), entry.start);
        self.found.batches += 1;
        self.apply_gathered_if_much();
        Ok(())
    }

    /// Adds an entry to the list; it overrules entries of its index and later ones.
    fn enter(&mut self, entry: Entry) -> Result<(), Error> {
        let entries = &mut self.found.entries;
        let kept = entries.partition_point(|known| known.index < entry.index);
        if let (Some(first), Some(last)) = (entries.get(kept), entries.last()) {
            self.accounting
                .overruled
                .lock()
                .add(first.start, last.start);
        }
        entries.truncate(kept);
        let follows = entries
            .last()
            .is_none_or(|last| last.index + 1 == entry.index && last.term <= entry.term);
        if !follows {
            let what = format!("it follows entry {:?}", entries.last());
            let index = entry.index;
            return Err(Error::InvalidBatch { index, what });
        }
        if !self.options.keeps_history {
            // Nothing is overruled, so only the first and the last are needed.
            entries.truncate(1);
        }
        entries.push(entry);
        let unapplied = self
            .unapplied
            .partition_point(|known| known.batch.index < entry.index);
        self.unapplied.truncate(unapplied);
        Ok(())
    }

    fn apply_committed(&mut self, replay: Replay<'_>) -> Result<(), Error> {
        let commit = self.accounting.hard_state.lock().commit;
        while self
            .unapplied
            .front()
            .is_some_and(|first| first.batch.index <= commit)
        {
            let first = self.unapplied.pop_front().expect("just seen");
            self.apply(&first.batch, &first.appended, replay)?;
        }
        Ok(())
    }

    /// Applies the entries that the log ends with, if they are all that a quorum has.
    fn apply_what_a_sole_voter_has(&mut self, replay: Replay<'_>) -> Result<(), Error> {
        let last = self.unapplied.back().map(|entry| entry.batch.index);
        match (self.options.commitment, last) {
            (Commitment::SoleVoter, Some(index)) => {
                self.accounting.hard_state.lock().commit = index;
                self.apply_committed(replay)
            }
            _ => Ok(()),
        }
    }

    /// Applies the entries that the checkpoint has seen: they were applied before, so they are
    /// committed, even if no hard state says so any more.
    fn apply_what_was_applied(&mut self, replay: Replay<'_>) -> Result<(), Error> {
        let seen = |entry: &&Unapplied| {
            let mains = entry.batch.mains();
            mains.is_some_and(|(first, _)| first <= self.checkpoints.last_main)
        };
        let last = self.unapplied.iter().rev().find(seen);
        if let Some(index) = last.map(|entry| entry.batch.index) {
            let mut state = self.accounting.hard_state.lock();
            state.commit = state.commit.max(index);
            drop(state);
            self.apply_committed(replay)?;
        }
        Ok(())
    }

    fn apply(
        &mut self,
        batch: &Batch,
        appended: &Appended,
        replay: Replay<'_>,
    ) -> Result<(), Error> {
        self.check_next(batch.mains())?;
        // Main revisions ascend without a gap: above the checkpoint's greatest
        // one there is nothing it could know.
        if !self.options.keeps_history {
            self.gather(batch, appended);
        } else if self.index.revision < self.checkpoints.last_main {
            self.index.apply_again(&self.accounting, batch, appended);
        } else {
            self.index.apply(&self.accounting, batch, appended);
        }
        self.found.batches += 1;
        replay(Replayed::Batch(batch))
    }

    /// Passes a batch of which the changes are applied later, with those of others.
    fn gather(&mut self, batch: &Batch, appended: &Appended) {
        for (change, pointer) in key_changes(batch, appended) {
            let version = version_entry(change, pointer);
            self.gathered.push(&change.key, version);
        }
        self.index.pass(&self.accounting, batch, appended.start);
        self.apply_gathered_if_much();
    }

    fn apply_gathered_if_much(&mut self) {
        if self.checkpoints.are_to_load() {
            return;
        }
        let keys = self.index.writer.len(CURRENT) as usize;
        let changes_max = (keys / KEYS_FOR_EACH_CHANGE).clamp(CHANGES_MIN, CHANGES_MAX);
        if self.gathered.len() >= changes_max {
            self.apply_gathered();
        }
    }

    /// The checkpoint may hold a later version of a key than a change that is applied here. The
    /// change that made it is in the log as well (`check_end`), so it comes back.
    fn apply_gathered(&mut self) {
        let (index, mut live) = (&mut self.index, self.accounting.live.lock());
        self.gathered
            .drain(|key, version| index.supersede_key(&mut live, key, version));
    }

    fn check_next(&self, mains: Option<(i64, i64)>) -> Result<(), Error> {
        let expected = self.index.revision + 1;
        match mains {
            Some((found, _)) if found != expected => Err(Error::Gap {
                directory: self.directory.into(),
                expected,
                found,
            }),
            _ => Ok(()),
        }
    }

    /// The checkpoint knows only what was applied, so the log had it.
    fn check_end(&self) -> Result<(), Error> {
        if self.found.rebuilt {
            let first = self.found.entries.first().map(|entry| entry.index);
            whole_log::check_first_entry(self.directory, first)?;
        }
        let (checkpoint, log) = (self.checkpoints.last_main, self.index.revision);
        if checkpoint > log {
            let directory = self.directory.into();
            return Err(Error::LogCutShort {
                directory,
                checkpoint,
                log,
            });
        }
        Ok(())
    }

    fn finish(mut self, log: Log, disk: Arc<dyn Disk>, lock: Box<dyn DirectoryLock>) -> Opened {
        // A crash may have left sorted segments that nothing points into.
        let sorted = log
            .segments()
            .into_iter()
            .filter(|segment| segment.kind == SegmentKind::Sorted);
        sorted.for_each(|segment| self.accounting.live.lock().enter(segment.id));
        self.accounting.creations.lock().start(self.index.revision);
        let replayed_from = self.replay_from.unwrap_or(Position::NONE);
        let accounting = std::mem::take(&mut self.accounting);
        let records = Records {
            log_view: LogView::new(log, accounting, self.log_floor),
            index: Published::new(self.reader.clone()),
            damage: Damage::default(),
            lifecycle: Lifecycle::new(self.directory.into(), lock),
        };
        if !self.options.keeps_history && self.index.revision > EMPTY_REVISION {
            self.index.set_compacted(self.index.revision);
        }
        self.index.publish(&records);
        damaged_group::write_again(&records.log_view.log, &self.mended);
        let recovered = self.found(&records.log_view.accounting);
        let directory = Directory {
            disk,
            path: self.directory.into(),
            reserve_bytes: self.options.log.reserve_bytes,
        };
        let parts = Arc::new(Parts {
            options: self.options,
            counters: Counters::default(),
            directory,
            transfers: Transfers::default(),
            records,
        });
        let applied = Applied::recovered(parts, self.index);
        let maintenance = Maintenance::new(&applied, self.checkpoints.last, replayed_from);
        Opened {
            applied,
            maintenance,
            recovered,
        }
    }

    fn found(&mut self, accounting: &Accounting) -> Recovered {
        let (applied_index, applied_term) = (self.index.applied_index, self.index.applied_term);
        let mut entries = std::mem::take(&mut self.found.entries);
        if !self.options.keeps_history {
            entries.drain(..entries.len().saturating_sub(1));
        }
        let last = entries.last().map_or(applied_index, |entry| entry.index);
        let mut hard_state = accounting.hard_state.lock();
        // A checkpoint's commit index may lie behind the end of this log: a majority had
        // entries that never reached this disk.
        hard_state.commit = hard_state
            .commit
            .clamp(applied_index, last.max(applied_index));
        hard_state.term = hard_state.term.max(applied_term);
        // An applied first entry is the one that the others follow.
        let base = match entries.first() {
            Some(first) if first.index <= applied_index => {
                let first = entries.remove(0);
                (first.index, first.term)
            }
            _ => (applied_index, applied_term),
        };
        Recovered {
            revision: self.index.revision,
            applied_term,
            applied_index,
            hard_state: *hard_state,
            base,
            entries,
            unapplied: std::mem::take(&mut self.unapplied).into(),
            damaged_checkpoint: self.checkpoints.take_damaged(),
            ..std::mem::take(&mut self.found)
        }
    }
}

/// Whether a thread may read the log while this one applies, and there is a core for it.
fn has_two_threads(worker: Worker) -> bool {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    worker != Worker::Caller && cores() > 1
}

/// The log's options, with what this crate relies on.
fn log_options(options: &Options) -> LogOptions {
    LogOptions {
        seal: Seal::Explicit,
        shows_damaged_groups: true,
        ..options.log.clone()
    }
}

#[cfg(test)]
mod tests;
