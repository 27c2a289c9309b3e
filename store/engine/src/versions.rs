//! Versions in revision order, as HashKV wants them.
//!
//! The index knows keys in order, not revisions, so this takes two passes:
//! collect (revision, place) of what counts, sort, then read. In revision
//! order the places ascend too, but for what reclaim has moved, so the reads
//! run along the log. It holds 16 bytes a version; when reclaim moves records
//! under it, it collects again and goes on where it was.
//!
//! What counts is etcd's rule for HashKV(R) with C compacted (`hash.go`):
//! everything in (C, R], tombstones included, and what its own transaction
//! replaced (`hidden.rs`); and of what is not above C the
//! versions visible at R. Only when nothing at all is visible at R, every
//! survivor of the compaction counts. A key that the transaction of R itself deleted and
//! put again does not count as visible for that: etcd looks at its deletion.
//!
//! Once R itself is compacted, some of these versions are dropped. [`HeldVersions`], taken
//! before, keep them: sweeps wait until they are dropped.

use crate::apply::Index;
use crate::compaction::survives;
use crate::parts::Parts;
use crate::range::Merge;
use crate::read::Records;
use crate::record_pointer::RecordPointer;
use crate::transfer::holds::Hold;
use crate::trees::VersionEntry;
use crate::{Error, KeyChange, Snapshot, hidden};
use std::sync::Arc;

/// How often the records may move under one walk.
const MOVES_MAX: usize = 16;

/// The versions that `HashKV` of a revision hashes, kept although that revision is
/// compacted afterwards: sweeps of later compactions wait until this is dropped.
/// Made by [`crate::Applier::hold_versions`].
#[derive(Debug)]
pub struct HeldVersions {
    parts: Arc<Parts>,
    at: i64,
    compacted: i64,
    generation: u64,
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
            generation: parts.records.index.generation(),
            _hold: parts.transfers.holds.hold(index.compacted),
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
}

/// The versions that `HashKV` hashes; made by
/// [`crate::Engine::versions_in_revision_order`] and [`HeldVersions::versions`].
#[derive(Debug)]
pub struct Versions {
    parts: Arc<Parts>,
    held: Option<Arc<HeldVersions>>,
    at: i64,
    revision: i64,
    compacted: i64,
    rest: std::vec::IntoIter<(i64, RecordPointer)>,
    /// Versions of one transaction, the next one last.
    transaction: Vec<KeyChange>,
    /// Last main revision read.
    done: i64,
    moves_left: usize,
}

impl Versions {
    pub(crate) fn new(parts: &Arc<Parts>, at: i64) -> Result<Versions, Error> {
        Versions::begin(parts, at, None)
    }

    fn begin(
        parts: &Arc<Parts>,
        at: i64,
        held: Option<Arc<HeldVersions>>,
    ) -> Result<Versions, Error> {
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
            rest: Vec::new().into_iter(),
            transaction: Vec::new(),
            done: 0,
            moves_left: MOVES_MAX,
        };
        versions.check_kept(&snapshot)?;
        versions.rest = collect(&snapshot, at, compacted).into_iter();
        Ok(versions)
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

    /// Reads all versions of the next transaction.
    fn read_transaction(&mut self) -> Result<(), Error> {
        loop {
            match take_main(&self.parts.records, &mut self.rest) {
                Ok(None) => return Ok(()),
                Ok(Some((main, mut versions))) => {
                    versions.sort_by_key(|stored| std::cmp::Reverse(stored.revision.sub));
                    self.transaction = versions;
                    self.done = main;
                    return Ok(());
                }
                Err(error) => self.collect_again(error)?,
            }
        }
    }

    /// After a failed read: the records have moved, or they are really lost.
    fn collect_again(&mut self, error: Error) -> Result<(), Error> {
        let snapshot = self.parts.records.index.snapshot();
        self.check_kept(&snapshot)?;
        let mut found = collect(&snapshot, self.at, self.compacted);
        found.retain(|&(main, _)| main > self.done);
        if found == self.rest.as_slice() || self.moves_left == 0 {
            return Err(error);
        }
        self.moves_left -= 1;
        self.rest = found.into_iter();
        Ok(())
    }
}

impl Iterator for Versions {
    type Item = Result<KeyChange, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.transaction.is_empty()
            && let Err(error) = self.read_transaction()
        {
            self.rest = Vec::new().into_iter();
            return Some(Err(error));
        }
        self.transaction.pop().map(Ok)
    }
}

/// What counts for a hash at `at`, by revision.
fn collect(snapshot: &Snapshot, at: i64, compacted: i64) -> Vec<(i64, RecordPointer)> {
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

/// Reads the versions of the next main revision; after a failure they still come next.
pub(crate) fn take_main(
    records: &Records,
    rest: &mut std::vec::IntoIter<(i64, RecordPointer)>,
) -> Result<Option<(i64, Vec<KeyChange>)>, Error> {
    let Some(&(main, _)) = rest.as_slice().first() else {
        return Ok(None);
    };
    let same = rest.as_slice().iter().take_while(|next| next.0 == main);
    let read = same.map(|&(main, pointer)| records.read_in_history(pointer, main));
    let versions = read.collect::<Result<Vec<KeyChange>, Error>>()?;
    rest.nth(versions.len() - 1);
    Ok(Some((main, versions)))
}

/// Every change made at `from` or later, up to `to`.
pub(crate) fn changes_between(
    snapshot: &Snapshot,
    from: i64,
    to: i64,
) -> Vec<(i64, RecordPointer)> {
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

fn in_order(counted: Vec<VersionEntry>) -> Vec<(i64, RecordPointer)> {
    let mut pointers: Vec<(i64, RecordPointer)> = counted
        .iter()
        .map(|version| (version.main, version.pointer))
        .collect();
    pointers.sort_unstable();
    pointers
}
