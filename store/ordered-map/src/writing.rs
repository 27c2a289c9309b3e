//! Writing a group of operations, as its leader does: one frame of the log for all of them, or a part of
//! the frame before where nothing is flushed, then the index.
//!
//! ```text
//!   operations   put a   put b   delete c   batch(d, e)
//!   revisions      8       9     (no c)       10.0, 10.1      one frame, one write, one flush
//! ```
//!
//! A version that a write replaces is dropped at once, unless a snapshot is held: then it is
//! kept until no snapshot that may show it is held any more.
//!
//! A group is refused before anything is written. Then each of its operations is tried
//! alone, so that one that is too large, or has no room, does not make the others fail.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use engine::{Applier, Batch, Change, Engine, Headers, KeyChange, Recovered, Revision, Snapshot};

use crate::compression::Compression;
use crate::held::Held;
use crate::pair::{self, Pair};
use crate::stamp::{Format, TERM};
use crate::{Error, stamp};

/// Largest frame of several operations; a batch that is larger has a frame of its own.
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// Bytes of log after which upkeep is woken.
const UPKEEP_EVERY_BYTES: u64 = 1 << 20;
/// While snapshots are held, versions older than they are dropped after this many writes
/// and one for each second key, because a sweep looks at all kept versions.
const COMPACT_EVERY: u64 = 10_000;
/// Number of keys that an operation has deleted.
pub(crate) type Answer = Result<u64, Error>;

/// A put or a deletion of one key.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pair: Pair,
    deletes: bool,
}

/// A write that a thread has asked for.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    One(Edit),
    /// Edits of a batch.
    Many(Vec<Edit>),
}

/// The writer's side of the engine.
#[derive(Debug)]
pub(crate) struct Work {
    pub applier: Applier,
    pub format: Format,
    held: Arc<Held>,
    directory: PathBuf,
    /// Revision of the last write.
    revision: i64,
    /// Index of the last entry in the log.
    index: u64,
    frame_bytes_max: u64,
    bytes_since_upkeep: u64,
    /// How the last [`Map::compact`](crate::Map::compact) has ended, until its caller takes it.
    pub(crate) key_order_end: Option<Result<(), Error>>,
}

impl Edit {
    pub(crate) fn put(pair: Pair) -> Edit {
        Edit {
            pair,
            deletes: false,
        }
    }

    pub(crate) fn delete(key: &[u8]) -> Edit {
        Edit {
            pair: pair::encode(key, &[], Compression::None),
            deletes: true,
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.pair.key
    }

    pub(crate) fn deletes(&self) -> bool {
        self.deletes
    }

    fn at(&self, revision: Revision) -> Change {
        // Versions are not counted here: each is the first of its key.
        let (created, version) = match self.deletes {
            true => (0, 0),
            false => (revision.main, 1),
        };
        Change::Key(KeyChange {
            revision,
            tombstone: self.deletes,
            key: self.pair.key.clone(),
            kv: self.pair.kv.clone(),
            created,
            version,
            lease: 0,
        })
    }
}

impl Operation {
    fn edits(&self) -> &[Edit] {
        match self {
            Operation::One(edit) => slice::from_ref(edit),
            Operation::Many(edits) => edits,
        }
    }

    /// Refuses a pair of key and value that is too large for a record.
    pub(crate) fn check(&self, entry_bytes_max: u64) -> Result<(), Error> {
        let longest = self
            .edits()
            .iter()
            .map(|edit| edit.pair.kv.len() as u64)
            .max();
        match longest {
            Some(batch_bytes) if batch_bytes > entry_bytes_max => Err(engine::Error::TooLarge {
                batch_bytes,
                batch_bytes_max: entry_bytes_max,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Bytes that it takes in the log: an upper limit with long headers, and with short ones an estimate, because
    /// some versions cannot have these.
    fn log_bytes(&self, headers: Headers) -> u64 {
        let edits = self.edits().iter();
        edits
            .map(|edit| KeyChange::log_bytes_with(edit.pair.kv.len(), headers))
            .sum()
    }
}

impl Work {
    pub(crate) fn new(
        applier: Applier,
        format: Format,
        recovered: &Recovered,
        held: Arc<Held>,
        directory: &Path,
        batch_bytes_max: u64,
    ) -> Work {
        let segment_bytes = applier.engine().batch_log_bytes_max();
        Work {
            applier,
            format,
            held,
            directory: directory.to_owned(),
            frame_bytes_max: FRAME_BYTES_MAX.min(segment_bytes).min(batch_bytes_max),
            revision: recovered.revision,
            index: recovered.applied_index,
            bytes_since_upkeep: 0,
            key_order_end: None,
        }
    }

    /// Writes the stamp of a new directory.
    pub(crate) fn stamp(&mut self) -> Result<(), Error> {
        let batch = stamp::first_batch(self.format);
        let engine = self.applier.engine();
        let body = batch.encode()?;
        engine.check(&batch, &body)?;
        let appended = engine.append_entry(&batch, &body, Some(stamp::hard_state()))?;
        engine.wait_durable(appended.sequence)?;
        self.applier.apply(&batch, &appended);
        self.index = batch.index;
        Ok(())
    }

    /// Writes the operations; returns their answers, in the same order.
    pub(crate) fn carry_out(&mut self, operations: &[Operation]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(operations.len());
        let mut rest = operations;
        while !rest.is_empty() {
            let (frame, behind) = rest.split_at(self.frame_length(rest));
            match self.write(frame) {
                Ok(deleted) => answers.extend(deleted.into_iter().map(Ok)),
                Err(_) if frame.len() > 1 => {
                    answers.extend(frame.iter().map(|operation| self.write_one(operation)));
                }
                Err(error) => answers.push(Err(error)),
            }
            rest = behind;
        }
        answers
    }

    /// Number of operations that are written together: as many as the last frame can take,
    /// or else as a frame of their own can have.
    fn frame_length(&self, operations: &[Operation]) -> usize {
        if operations.len() == 1 {
            return 1;
        }
        let headers = self.format.headers();
        let joining = fitting(operations, self.applier.room_in_last_entry(), headers);
        match joining {
            0 => fitting(operations, self.frame_bytes_max, Headers::Long).max(1),
            _ => joining,
        }
    }

    fn write_one(&mut self, operation: &Operation) -> Answer {
        let deleted = self.write(slice::from_ref(operation))?;
        Ok(deleted.into_iter().sum())
    }

    /// Writes the operations as one frame, all or none of them. Returns the number of keys
    /// that each has deleted.
    fn write(&mut self, operations: &[Operation]) -> Result<Vec<u64>, Error> {
        let mut existing = Existing::before(self.applier.engine(), operations);
        let mut revision = self.revision;
        let mut changes = Vec::with_capacity(operations.len());
        let mut deleted = Vec::with_capacity(operations.len());
        for operation in operations {
            let (main, before) = (revision + 1, changes.len());
            let mut gone = 0;
            for edit in operation.edits() {
                if edit.deletes && !existing.has(edit.key()) {
                    continue;
                }
                existing.note(edit);
                gone += u64::from(edit.deletes);
                let sub = (changes.len() - before) as i64;
                changes.push(edit.at(Revision { main, sub }));
            }
            if changes.len() > before {
                revision = main;
            }
            deleted.push(gone);
        }
        // Its snapshot holds memory of the index back.
        drop(existing);
        if !changes.is_empty() {
            self.append(changes, revision)?;
        }
        Ok(deleted)
    }

    /// Writes and applies one batch. Returns when it is visible, and as durable as the
    /// options ask for.
    fn append(&mut self, changes: Vec<Change>, revision: i64) -> Result<(), Error> {
        let mut batch = Batch {
            term: TERM,
            index: self.index + 1,
            changes,
        };
        let refused = |error| Error::of_write(error, &self.directory);
        let (applier, headers) = (&mut self.applier, self.format.headers());
        let appended = applier.append_joining(&mut batch, headers);
        let appended = appended.map_err(refused)?;
        applier.engine().wait_durable(appended.sequence)?;
        self.held.with_oldest(|oldest| match oldest {
            None => applier.apply_and_compact(&batch, &appended),
            Some(_) => applier.apply(&batch, &appended),
        });
        self.index = batch.index;
        self.revision = revision;
        self.bytes_since_upkeep += appended.record_bytes().sum::<u64>();
        Ok(())
    }

    /// Whether upkeep should be woken; true once for each `UPKEEP_EVERY_BYTES` of log.
    pub(crate) fn wants_upkeep(&mut self) -> bool {
        let wants = self.bytes_since_upkeep >= UPKEEP_EVERY_BYTES;
        if wants {
            self.bytes_since_upkeep = 0;
        }
        wants
    }

    /// A step of the engine's upkeep.
    pub(crate) fn maintain(&mut self) -> Result<(), Error> {
        let was_in_order = self.applier.is_defragmenting();
        let stamp = self.format.stamp();
        let outcome = self.applier.maintain(&mut || stamp.to_vec());
        let outcome = outcome.map_err(Error::from);
        if was_in_order && !self.applier.is_defragmenting() {
            self.key_order_end = Some(outcome.clone());
        }
        outcome
    }

    /// Has the steps that follow put all pairs in the order of their keys, and release all garbage.
    pub(crate) fn begin_key_order(&mut self) {
        self.compact_if_due();
        self.key_order_end = None;
        self.applier.begin_defragmentation_in_key_order();
    }

    /// Compacts to the newest revision if no snapshot is held; otherwise to the oldest held
    /// one, if enough has been written since the last compaction.
    pub(crate) fn compact_if_due(&mut self) {
        if self.applier.is_sweeping() {
            return;
        }
        let snapshot = self.applier.engine().snapshot();
        let (compacted, keys) = (snapshot.compacted().max(1), snapshot.keys());
        drop(snapshot);
        let due = compacted + (keys / 2 + COMPACT_EVERY) as i64;
        let (applier, newest) = (&mut self.applier, self.revision);
        self.held.with_oldest(|oldest| {
            let revision = oldest.unwrap_or(newest);
            if oldest.is_none() || revision >= due {
                applier.compact(revision);
            }
        });
    }
}

/// Number of operations, from the first on, that take at most `bytes_max`.
fn fitting(operations: &[Operation], bytes_max: u64, headers: Headers) -> usize {
    let mut bytes = 0;
    let fitting = operations.iter().take_while(|operation| {
        bytes += operation.log_bytes(headers);
        bytes <= bytes_max
    });
    fitting.count()
}

/// Which keys exist, for deletions: in the index, or written before in the same frame.
enum Existing {
    /// There is no deletion, so the answer does not matter.
    NotNeeded,
    Known {
        snapshot: Snapshot,
        written: HashMap<Bytes, bool>,
    },
}

impl Existing {
    fn before(engine: &Engine, operations: &[Operation]) -> Existing {
        let mut edits = operations.iter().flat_map(Operation::edits);
        if !edits.any(Edit::deletes) {
            return Existing::NotNeeded;
        }
        Existing::Known {
            snapshot: engine.snapshot(),
            written: HashMap::new(),
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        match self {
            Existing::NotNeeded => true,
            Existing::Known { snapshot, written } => match written.get(key) {
                Some(&there) => there,
                None => snapshot.get(key, i64::MAX).is_some(),
            },
        }
    }

    fn note(&mut self, edit: &Edit) {
        if let Existing::Known { written, .. } = self {
            written.insert(edit.pair.key.clone(), !edit.deletes);
        }
    }
}
