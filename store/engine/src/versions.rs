//! Versions in revision order, as HashKV wants them.
//!
//! The index knows keys in order, not revisions, so this takes two passes:
//! collect (revision, place) of what counts, sort, then read. In revision
//! order the places ascend too, but for what reclaim has moved, so the reads
//! run along the log, and one of them brings a run of records (`runs.rs`). It
//! holds 16 bytes a version; when reclaim moves records under it, it collects
//! again and goes on where it was. Two walks over the same [`HeldVersions`]
//! collect once.
//!
//! What counts is etcd's rule for HashKV(R) with C compacted (`hash.go`):
//! everything in (C, R], tombstones included, and what its own transaction
//! replaced (`hidden.rs`); and of what is not above C the
//! versions visible at R. Only when nothing at all is visible at R, every
//! survivor of the compaction counts. A key that the transaction of R itself deleted and
//! put again does not count as visible for that: etcd looks at its deletion.
//!
//! Once R itself is compacted, some of these versions are dropped. [`HeldVersions`], taken
//! before, keep them: sweeps wait until they are dropped. They may also cover everything that the
//! compaction keeps, for a copy of the whole store.

use crate::apply::Index;
use crate::compaction::{keep, survives};
use crate::format::KeyHeader;
use crate::parts::Parts;
use crate::range::Merge;
use crate::read::Records;
use crate::record::header_in;
use crate::record_pointer::RecordPointer;
use crate::runs::run_length;
use crate::transfer::holds::Hold;
use crate::trees::VersionEntry;
use crate::{Error, KeyChange, Revision, Snapshot, hidden};
use environment::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use value_log::RecordBuffer;

/// How often the records may move under one walk.
const MOVES_MAX: usize = 16;

/// A version's main revision, and where its record is.
type Place = (i64, RecordPointer);

/// Places by revision, and how many of them were visited.
#[derive(Debug, Default)]
pub(crate) struct Places {
    all: Arc<Vec<Place>>,
    visited: usize,
}

impl Places {
    pub(crate) fn new(all: Vec<Place>) -> Places {
        Places::shared(Arc::new(all))
    }

    fn shared(all: Arc<Vec<Place>>) -> Places {
        Places { all, visited: 0 }
    }

    fn rest(&self) -> &[Place] {
        &self.all[self.visited..]
    }

    /// The main revision of the next place, and how many places are of it.
    fn next_main(&self) -> Option<(i64, usize)> {
        let rest = self.rest();
        let main = rest.first()?.0;
        let count = rest.iter().take_while(|place| place.0 == main).count();
        Some((main, count))
    }

    fn skip_to(&mut self, done: i64) {
        self.visited = self.all.partition_point(|&(main, _)| main <= done);
    }
}

/// The versions of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covered {
    /// Those that `HashKV` hashes.
    Hashed,
    /// All that the compaction keeps.
    Kept,
}

/// The versions of a revision, kept although that revision is
/// compacted afterwards: sweeps of later compactions wait until this is dropped.
/// Made by [`crate::Applier::hold_versions`] and [`crate::Engine::hold_all_versions`].
#[derive(Debug)]
pub struct HeldVersions {
    parts: Arc<Parts>,
    at: i64,
    compacted: i64,
    covered: Covered,
    generation: u64,
    /// Where the last walk has found them; none for a hash.
    found: Mutex<Option<Arc<Vec<Place>>>>,
    _hold: Hold,
}

impl HeldVersions {
    pub(crate) fn new(parts: &Arc<Parts>, index: &Index, at: i64, compacted: i64) -> HeldVersions {
        assert!(
            index.compacted <= compacted && compacted < at && at <= index.revision,
            "nothing keeps revision {at} after compaction to {}",
            index.compacted
        );
        HeldVersions {
            parts: Arc::clone(parts),
            at,
            compacted,
            covered: Covered::Hashed,
            generation: parts.records.index.generation(),
            found: Mutex::new(None),
            _hold: parts.transfers.holds.hold(index.compacted),
        }
    }

    /// All versions of this moment. On any thread: a compaction that is published later than the
    /// second look at the index sees the hold before its sweep begins.
    pub(crate) fn of_all(parts: &Arc<Parts>) -> HeldVersions {
        let index = &parts.records.index;
        loop {
            let generation = index.generation();
            let compacted = index.snapshot().compacted();
            let hold = parts.transfers.holds.hold(compacted);
            let snapshot = index.snapshot();
            let is_settled = generation.is_multiple_of(2) && index.generation() == generation;
            if is_settled && snapshot.compacted() == compacted {
                return HeldVersions {
                    parts: Arc::clone(parts),
                    at: snapshot.revision(),
                    compacted,
                    covered: Covered::Kept,
                    generation,
                    found: Mutex::new(None),
                    _hold: hold,
                };
            }
            drop((hold, snapshot));
            std::thread::yield_now();
        }
    }

    /// The revision.
    pub fn at(&self) -> i64 {
        self.at
    }

    /// The compaction before it; -1: none.
    pub fn compacted(&self) -> i64 {
        self.compacted
    }

    /// A walk over them. [`Error::Compacted`] when a snapshot has been installed
    /// since.
    pub fn versions(self: &Arc<Self>) -> Result<Versions, Error> {
        let held = Some(Arc::clone(self));
        Versions::begin(&self.parts, self.at, held)
    }

    /// The same walk over their lengths, which reads no value.
    pub fn sizes(self: &Arc<Self>) -> Result<Versions<VersionSize>, Error> {
        let held = Some(Arc::clone(self));
        Versions::begin(&self.parts, self.at, held)
    }
}

/// A version without its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionSize {
    pub revision: Revision,
    /// True for a deletion.
    pub tombstone: bool,
    /// Bytes of the encoded `mvccpb.KeyValue`.
    pub kv_bytes: usize,
}

impl VersionSize {
    pub(crate) fn of(header: &KeyHeader) -> VersionSize {
        VersionSize {
            revision: Revision {
                main: header.main as i64,
                sub: i64::from(header.sub),
            },
            tombstone: header.tombstone,
            kv_bytes: header.kv_bytes as usize,
        }
    }
}

/// As much of a version as a walk reads.
pub(crate) trait VersionPart: Sized {
    /// The part of a record that was read; `None` if it is not the one written at `main`.
    fn of_record(record: &RecordBuffer, main: i64) -> Option<Self>;

    /// Reads it. The record is the one written at `main`.
    fn read(records: &Records, pointer: RecordPointer, main: i64) -> Result<Self, Error>;

    /// When it was written.
    fn revision(&self) -> Revision;
}

impl VersionPart for KeyChange {
    fn of_record(record: &RecordBuffer, main: i64) -> Option<KeyChange> {
        let change = KeyChange::decode(record.kind, &record.payload).ok()?;
        (change.revision.main == main).then_some(change)
    }

    fn read(records: &Records, pointer: RecordPointer, main: i64) -> Result<KeyChange, Error> {
        records.read_in_history(pointer, main)
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

impl VersionPart for VersionSize {
    fn of_record(record: &RecordBuffer, main: i64) -> Option<VersionSize> {
        let header = header_in(record.kind, &record.payload).ok()?;
        (header.main as i64 == main).then(|| VersionSize::of(&header))
    }

    fn read(records: &Records, pointer: RecordPointer, main: i64) -> Result<VersionSize, Error> {
        records.size_in_history(pointer, main)
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

/// Versions in the order of their revisions; made by
/// [`crate::Engine::versions_in_revision_order`] and [`HeldVersions::versions`]. A version that
/// is kept may keep 64 KiB in memory: those that lie together are read at once.
#[derive(Debug)]
pub struct Versions<V = KeyChange> {
    parts: Arc<Parts>,
    held: Option<Arc<HeldVersions>>,
    at: i64,
    revision: i64,
    compacted: i64,
    places: Places,
    /// Versions of the next places, read with one read.
    ahead: VecDeque<V>,
    /// Places before this one are read one by one: something is wrong with their run.
    single_until: usize,
    /// Versions of one transaction, the next one last.
    transaction: Vec<V>,
    /// Last main revision read.
    done: i64,
    moves_left: usize,
}

impl Versions {
    pub(crate) fn new(parts: &Arc<Parts>, at: i64) -> Result<Versions, Error> {
        Versions::begin(parts, at, None)
    }
}

impl<V> Versions<V> {
    /// The revision the versions are hashed at.
    pub fn at(&self) -> i64 {
        self.at
    }

    /// The last applied revision when the walk began.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The compacted revision when the walk began (-1: never).
    pub fn compacted(&self) -> i64 {
        self.compacted
    }
}

#[expect(private_bounds, reason = "its parts are of this crate alone")]
impl<V: VersionPart> Versions<V> {
    fn begin(
        parts: &Arc<Parts>,
        at: i64,
        held: Option<Arc<HeldVersions>>,
    ) -> Result<Versions<V>, Error> {
        let snapshot = parts.records.index.snapshot();
        let revision = snapshot.revision();
        let at = if at <= 0 { revision } else { at };
        let compacted = match &held {
            Some(held) => held.compacted,
            None => snapshot.compacted().min(at),
        };
        let mut versions = Versions {
            parts: Arc::clone(parts),
            held,
            at,
            revision,
            compacted,
            places: Places::default(),
            ahead: VecDeque::new(),
            single_until: 0,
            transaction: Vec::new(),
            done: 0,
            moves_left: MOVES_MAX,
        };
        versions.check_kept(&snapshot)?;
        let known = versions
            .held
            .as_ref()
            .and_then(|held| held.found.lock().clone());
        let all = known.unwrap_or_else(|| versions.find_all(&snapshot));
        versions.places = Places::shared(all);
        Ok(versions)
    }

    /// Revisions and places of what the walk covers.
    fn find_all(&self, snapshot: &Snapshot) -> Arc<Vec<Place>> {
        let covered = self.held.as_ref().map(|held| held.covered);
        let found = Arc::new(match covered.unwrap_or(Covered::Hashed) {
            Covered::Hashed => collect_hashed(snapshot, self.at, self.compacted),
            Covered::Kept => collect_kept(snapshot, self.at, self.compacted),
        });
        // A hash needs one walk, a copy two.
        if let Some(held) = self
            .held
            .as_ref()
            .filter(|held| held.covered == Covered::Kept)
        {
            *held.found.lock() = Some(Arc::clone(&found));
        }
        found
    }

    /// Whether a snapshot that was just pinned has all that counts.
    fn check_kept(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let kept = match &self.held {
            Some(held) => self.parts.records.index.generation() == held.generation,
            None => snapshot.compacted() <= self.compacted,
        };
        let (asked, compacted) = (self.at, snapshot.compacted());
        let gone = Error::Compacted { asked, compacted };
        if kept { Ok(()) } else { Err(gone) }
    }

    /// Reads all versions of the next transaction.
    fn read_transaction(&mut self) -> Result<(), Error> {
        loop {
            let Some((main, count)) = self.places.next_main() else {
                return Ok(());
            };
            match self.read_versions(count) {
                Ok(mut versions) => {
                    versions.sort_by_key(|stored: &V| std::cmp::Reverse(stored.revision().sub));
                    self.transaction = versions;
                    self.places.visited += count;
                    self.done = main;
                    return Ok(());
                }
                Err(error) => self.collect_again(error)?,
            }
        }
    }

    /// The versions of the next `count` places. After an error, nothing is left of those that
    /// were read ahead, and the same places come next.
    fn read_versions(&mut self, count: usize) -> Result<Vec<V>, Error> {
        let next = self.places.visited..self.places.visited + count;
        next.map(|number| {
            if self.ahead.is_empty() {
                self.read_ahead(number);
            }
            let (main, pointer) = self.places.all[number];
            let read = || V::read(&self.parts.records, pointer, main);
            self.ahead.pop_front().map_or_else(read, Ok)
        })
        .collect()
    }

    /// Reads the run that begins with a place, unless it has one record, or something is wrong.
    fn read_ahead(&mut self, number: usize) {
        if number < self.single_until {
            return;
        }
        let rest = &self.places.all[number..];
        let run = &rest[..run_length(rest.iter().map(|place| place.1))];
        if run.len() < 2 {
            return;
        }
        match read_run(&self.parts.records, run) {
            Some(ahead) => self.ahead = ahead,
            None => self.single_until = number + run.len(),
        }
    }

    /// After a failed read: the records have moved, or they are really lost.
    fn collect_again(&mut self, error: Error) -> Result<(), Error> {
        let snapshot = self.parts.records.index.snapshot();
        self.check_kept(&snapshot)?;
        let mut found = Places::shared(self.find_all(&snapshot));
        found.skip_to(self.done);
        if found.rest() == self.places.rest() || self.moves_left == 0 {
            return Err(error);
        }
        self.moves_left -= 1;
        self.places = found;
        self.single_until = 0;
        Ok(())
    }
}

impl<V: VersionPart> Iterator for Versions<V> {
    type Item = Result<V, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.transaction.is_empty()
            && let Err(error) = self.read_transaction()
        {
            self.places = Places::default();
            return Some(Err(error));
        }
        self.transaction.pop().map(Ok)
    }
}

/// What counts for a hash at `at`, by revision.
fn collect_hashed(snapshot: &Snapshot, at: i64, compacted: i64) -> Vec<Place> {
    let mut counted = Vec::new();
    let mut survivors = Vec::new();
    let mut any_visible = false;
    let put_again = hidden::keys_deleted_at(snapshot, at);
    each_key(snapshot, |key, versions| {
        let newest = newest_not_above(versions, at);
        let visible = newest.filter(|version| !version.tombstone);
        any_visible |= visible.is_some() && !put_again.contains(key);
        counted.extend(visible.filter(|version| version.main <= compacted));
        counted.extend(
            versions
                .iter()
                .filter(|version| version.main > compacted && version.main <= at),
        );
        if !any_visible {
            let survivor = newest_not_above(versions, compacted);
            survivors.extend(
                survivor.filter(|version| !version.tombstone && survives(*version, compacted)),
            );
        }
    });
    if !any_visible {
        counted.extend(survivors);
    }
    counted.extend(hidden::between(snapshot, compacted + 1, at));
    in_order(counted)
}

/// Everything up to `at` that a compaction to `compacted` keeps, by revision.
fn collect_kept(snapshot: &Snapshot, at: i64, compacted: i64) -> Vec<Place> {
    let mut kept = Vec::new();
    each_key(snapshot, |_, versions| {
        let mut of_key = versions.to_vec();
        keep((compacted, at), &mut of_key);
        kept.append(&mut of_key);
    });
    kept.extend(hidden::between(snapshot, compacted + 1, at));
    in_order(kept)
}

/// The versions of a run; `None` when one of them is not what the index said.
fn read_run<V: VersionPart>(records: &Records, run: &[Place]) -> Option<VecDeque<V>> {
    let places = run.iter().map(|&(_, record)| record.place());
    let mut reads = records.log_view.log.reads();
    reads.run(&places.collect::<Vec<_>>()).ok()?;
    records.lifecycle.check_open().ok()?;
    let (bytes, read) = reads.take();
    let versions = run.iter().zip(read);
    versions
        .map(|(&(main, _), record)| {
            let payload = bytes.slice(record.payload);
            let kind = record.kind;
            V::of_record(&RecordBuffer { kind, payload }, main)
        })
        .collect()
}

/// Reads the versions of the next main revision, each by itself, so that one that is kept keeps
/// no other in memory; after a failure they still come next.
pub(crate) fn take_main(
    records: &Records,
    places: &mut Places,
) -> Result<Option<(i64, Vec<KeyChange>)>, Error> {
    let Some((main, count)) = places.next_main() else {
        return Ok(None);
    };
    let next = &places.rest()[..count];
    let read = next
        .iter()
        .map(|&(main, pointer)| records.read_in_history(pointer, main));
    let versions = read.collect::<Result<Vec<KeyChange>, Error>>()?;
    places.visited += count;
    Ok(Some((main, versions)))
}

/// Every change made at `from` or later, up to `to`.
pub(crate) fn changes_between(snapshot: &Snapshot, from: i64, to: i64) -> Vec<Place> {
    let mut counted = Vec::new();
    each_key(snapshot, |_, versions| {
        counted.extend(
            versions
                .iter()
                .filter(|version| version.main >= from && version.main <= to),
        );
    });
    counted.extend(hidden::between(snapshot, from, to));
    in_order(counted)
}

fn each_key(snapshot: &Snapshot, mut look: impl FnMut(&[u8], &[VersionEntry])) {
    let mut merge = Merge::new(snapshot, &[], None, i64::MAX, false);
    let mut versions = Vec::new();
    while let Some(key) = merge.next_versions(&mut versions) {
        look(&key, &versions);
    }
}

fn newest_not_above(versions: &[VersionEntry], at: i64) -> Option<VersionEntry> {
    versions
        .iter()
        .filter(|version| version.main <= at)
        .max_by_key(|version| version.main)
        .copied()
}

fn in_order(counted: Vec<VersionEntry>) -> Vec<Place> {
    let mut places: Vec<Place> = counted
        .iter()
        .map(|version| (version.main, version.pointer))
        .collect();
    places.sort_unstable();
    places
}
