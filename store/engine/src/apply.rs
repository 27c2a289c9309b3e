//! The single writer of the index.
//!
//! ```text
//!   put k at 9           CURRENT  k → 5   ⇒   k → 9        HISTORY  + (k, 5)
//!   delete k at 9        CURRENT  k → 5   ⇒   -            HISTORY  + (k, 5), (k, 9†)
//!   both, in one         CURRENT  k → 5   ⇒   -            HISTORY  + (k, 5), (k, 9†)
//!   transaction                                            HIDDEN   + (k, 9)
//! ```
//!
//! A batch is applied after its frame is durable, in order, and published
//! with its last main revision. Applying cannot fail: `append` has refused batches that
//! could, and a batch out of order is a broken invariant.
//!
//! During recovery batches may meet a checkpoint that was written while later
//! batches were being applied, and already holds their versions: those are
//! left alone (`checkpoint.rs` says why that is enough). Only batches up to
//! the greatest revision in the checkpoint are checked for such versions.

use crate::accounting::Accounting;
use crate::checkpoint::format::Head;
use crate::creations::Transition;
use crate::live::Live;
use crate::read::Records;
use crate::record_pointer::RecordPointer;
use crate::state_hash::{StateHash, Sums};
use crate::trees::{self, COMPACTION, CURRENT, HIDDEN, HISTORY, OF_VERSIONS, VersionEntry};
use crate::{Batch, Change, KeyChange, bulk_deletion, hidden, history_key};
use ordered_index::{BulkLoad, Writer};
use std::collections::HashSet;
use std::ops::Bound;
use value_log::{Appended, Position};

/// The writer of the index, owned by the one thread that applies.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) writer: Writer,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    pub(crate) applied_term: u64,
    pub(crate) applied_index: u64,
    /// Frame of the last applied batch.
    pub(crate) applied_position: Position,
    /// Of everything that is applied.
    pub(crate) sums: Sums,
}

impl Index {
    /// Versions that only a compaction drops.
    pub(crate) fn kept_versions(&self) -> u64 {
        self.writer.len(HISTORY) + self.writer.len(HIDDEN)
    }

    /// Applies a batch without publishing it. The trees must hold none of its versions.
    pub(crate) fn apply(&mut self, accounting: &Accounting, batch: &Batch, appended: &Appended) {
        let (mut live, mut creations) = (accounting.live.lock(), accounting.creations.lock());
        if batch.changes.len() < bulk_deletion::KEYS_MIN {
            for (change, pointer) in key_changes(batch, appended) {
                if let Some(transition) = self.apply_key(&mut live, change, pointer) {
                    creations.note(change.revision.main, &change.key, transition);
                }
            }
        } else {
            let changes: Vec<_> = key_changes(batch, appended).collect();
            self.apply_runs(&mut live, &mut creations, &changes);
        }
        drop((live, creations));
        self.pass(accounting, batch, appended.start);
    }

    /// Like [`Index::apply`], but drops the versions that the batch replaces.
    pub(crate) fn supersede(
        &mut self,
        accounting: &Accounting,
        batch: &Batch,
        appended: &Appended,
    ) {
        let mut live = accounting.live.lock();
        for (change, pointer) in key_changes(batch, appended) {
            self.supersede_key(&mut live, &change.key, version_entry(change, pointer));
        }
        drop(live);
        self.pass(accounting, batch, appended.start);
    }

    /// Applies one change, and drops the version that it replaces.
    pub(crate) fn supersede_key(&mut self, live: &mut Live, key: &[u8], version: VersionEntry) {
        live.born(version.pointer);
        let before = if version.tombstone {
            self.bury(live, key, version);
            self.writer.remove(CURRENT, key)
        } else {
            self.writer.insert(CURRENT, key, version.entry())
        };
        self.note_replaced(key, before.map(VersionEntry::from), version);
        if let Some(before) = before {
            live.died(VersionEntry::from(before).pointer);
        }
    }

    /// Keeps the sum of keys that of the tree.
    fn note_replaced(&mut self, key: &[u8], before: Option<VersionEntry>, after: VersionEntry) {
        let after = (!after.tombstone).then_some(after.main);
        let before = before.map(|before| before.main);
        self.sums.replace(key, before, after);
    }

    /// Keeps the tombstone if HISTORY has versions of the key that are not swept yet, because
    /// they would show again without it.
    fn bury(&mut self, live: &mut Live, key: &[u8], deletion: VersionEntry) {
        if self.newest_since(key, 0).is_some() {
            self.insert_history(live, key, deletion);
        } else {
            live.died(deletion.pointer);
        }
    }

    /// Applies a replayed batch: versions that the checkpoint already holds are left alone.
    pub(crate) fn apply_again(
        &mut self,
        accounting: &Accounting,
        batch: &Batch,
        appended: &Appended,
    ) {
        let version = self.known_already(batch);
        let mut live = accounting.live.lock();
        for (change, pointer) in key_changes(batch, appended) {
            let (key, main) = (&change.key, change.revision.main);
            if version.contains(&(&key[..], main)) {
                self.drop_stale(&mut live, key, main);
            } else {
                self.apply_key(&mut live, change, pointer);
            }
        }
        drop(live);
        self.pass(accounting, batch, appended.start);
    }

    /// Takes note that `batch` is applied.
    pub(crate) fn pass(&mut self, accounting: &Accounting, batch: &Batch, frame: Position) {
        self.sums.absorb(batch);
        self.pass_entry(accounting, (batch.term, batch.index), batch.mains(), frame);
    }

    /// Takes note that an entry of this term and index is applied. `mains`: its first and its
    /// last main revision.
    pub(crate) fn pass_entry(
        &mut self,
        accounting: &Accounting,
        (term, index): (u64, u64),
        mains: Option<(i64, i64)>,
        frame: Position,
    ) {
        let mut live = accounting.live.lock();
        live.passed(frame.segment(), mains.map(|(_, last)| last), index);
        drop(live);
        if let Some((first, _)) = mains {
            accounting.marks.lock().note(first, frame);
        }
        self.applied_position = frame;
        self.revision = mains.map_or(self.revision, |(_, last)| last);
        self.applied_term = term;
        self.applied_index = index;
    }

    /// Applies one change. Returns whether it created or deleted the key; `None` for neither.
    pub(crate) fn apply_key(
        &mut self,
        live: &mut Live,
        change: &KeyChange,
        pointer: RecordPointer,
    ) -> Option<Transition> {
        let (key, version) = (&change.key[..], version_entry(change, pointer));
        live.born(version.pointer);
        let before = if version.tombstone {
            self.insert_history(live, key, version);
            self.writer.remove(CURRENT, key)
        } else {
            self.writer.insert(CURRENT, key, version.entry())
        };
        let transition = match (before.is_some(), version.tombstone) {
            (false, false) => Some(Transition::Created),
            (true, true) => Some(Transition::Deleted),
            (true, false) | (false, true) => None,
        };
        self.note_replaced(key, before.map(VersionEntry::from), version);
        match before.map(VersionEntry::from) {
            Some(before) if before.main < version.main => self.insert_history(live, key, before),
            Some(before) => hidden::keep(&mut self.writer, live, key, before),
            None if !version.tombstone && change.revision.sub > 0 => {
                self.hide_deletion(live, key, version.main);
            }
            None => {}
        }
        transition
    }

    /// Moves the tombstone of `key` at `main` to HIDDEN, if there is one: the same transaction
    /// has put the key again.
    fn hide_deletion(&mut self, live: &mut Live, key: &[u8], main: i64) {
        let twin = history_key::encode(key, main as u64);
        if let Some(deletion) = self.writer.remove(HISTORY, &twin) {
            hidden::keep(&mut self.writer, live, key, VersionEntry::from(deletion));
        }
    }

    fn insert_history(&mut self, live: &mut Live, key: &[u8], version: VersionEntry) {
        let key = history_key::encode(key, version.main as u64);
        if let Some(twin) = self.writer.insert(HISTORY, &key, version.entry()) {
            live.died(VersionEntry::from(twin).pointer);
        }
    }

    /// Keys and revisions of a replayed batch for which the trees hold that version or a later
    /// one. Computed before any change is applied: a transaction may write a key twice, and the
    /// answer must be the same for both changes.
    fn known_already<'b>(&self, batch: &'b Batch) -> HashSet<(&'b [u8], i64)> {
        let written = batch
            .keys()
            .map(|change| (&change.key[..], change.revision.main));
        written
            .filter(|&(key, main)| self.has_since(key, main))
            .collect()
    }

    /// Whether any version of `key` written at `main` or later is in the trees.
    fn has_since(&self, key: &[u8], main: i64) -> bool {
        let current = self.writer.get(CURRENT, key).map(VersionEntry::from);
        current.is_some_and(|version| version.main >= main)
            || self.newest_since(key, main).is_some()
    }

    /// The newest superseded version of `key` written at `main` or later.
    fn newest_since(&self, key: &[u8], main: i64) -> Option<VersionEntry> {
        if self.writer.is_empty(HISTORY) {
            return None;
        }
        let newest = history_key::encode(key, u64::MAX);
        let oldest = history_key::encode(key, main as u64);
        let (newest, oldest) = (Bound::Included(&newest[..]), Bound::Included(&oldest[..]));
        let mut cursor = self.writer.cursor(HISTORY, newest, oldest);
        cursor.next().map(|(_, entry)| VersionEntry::from(entry))
    }

    /// Drops a version of `key` older than `main` that still stands in CURRENT. A checkpoint's
    /// walk may have met it there and its replacement later in HISTORY; by then the older version
    /// had moved to HISTORY too, or had been compacted.
    fn drop_stale(&mut self, live: &mut Live, key: &[u8], main: i64) {
        let current = self.writer.get(CURRENT, key).map(VersionEntry::from);
        if let Some(stale) = current.filter(|version| version.main < main) {
            self.writer.remove(CURRENT, key);
            self.sums.leave(key, stale.main);
            live.died(stale.pointer);
        }
    }

    /// Puts loaded trees in the place of the present ones, and the moment that they are of.
    /// `keys` is the sum over the keys in them.
    pub(crate) fn install(&mut self, loads: [BulkLoad; OF_VERSIONS.len()], head: &Head, keys: u64) {
        self.install_head(head);
        self.install_trees(loads, keys);
    }

    /// Replaces the trees of versions; `keys` is the sum over their keys.
    pub(crate) fn install_trees(&mut self, loads: [BulkLoad; OF_VERSIONS.len()], keys: u64) {
        self.sums.keys = keys;
        for (tree, load) in OF_VERSIONS.into_iter().zip(loads) {
            self.writer.install(tree, load);
        }
    }

    /// Replaces all but the trees of versions.
    pub(crate) fn install_head(&mut self, head: &Head) {
        self.sums = Sums {
            off: self.sums.off,
            since: head.effects_since,
            effects: head.effects,
            keys: self.sums.keys,
        };
        self.writer.install(COMPACTION, BulkLoad::new());
        self.set_compacted(head.compacted);
        self.revision = head.revision;
        self.applied_term = head.applied_term;
        self.applied_index = head.applied_index;
        self.applied_position = head.applied_position;
    }

    pub(crate) fn set_compacted(&mut self, revision: i64) {
        self.compacted = revision;
        trees::set_compacted(&mut self.writer, revision);
    }

    fn state_hash(&self) -> StateHash {
        let Sums {
            since,
            effects,
            keys,
            ..
        } = self.sums;
        StateHash {
            index: self.applied_index,
            revision: self.revision,
            since,
            effects,
            keys,
        }
    }

    /// Makes everything applied so far visible to readers.
    pub(crate) fn publish(&mut self, records: &Records) {
        self.writer.publish(self.revision as u64);
        let creations_bytes = records.log_view.accounting.creations.lock().heap_bytes();
        let bytes = self.writer.memory_bytes() + creations_bytes;
        records
            .index
            .note(self.applied_index, self.applied_term, bytes);
        if !self.sums.off {
            records.index.hashes.note(self.state_hash());
        }
    }
}

/// The changes of keys in a batch, and where they lie.
pub(crate) fn key_changes<'b>(
    batch: &'b Batch,
    appended: &'b Appended,
) -> impl Iterator<Item = (&'b KeyChange, RecordPointer)> {
    assert_eq!(
        appended.positions.len(),
        batch.changes.len(),
        "a change without a position"
    );
    let places = appended.positions.iter().zip(appended.record_bytes());
    let both = batch.changes.iter().zip(places);
    both.filter_map(|(change, (&position, bytes))| match change {
        Change::Key(change) => Some((change, RecordPointer::new(position, bytes))),
        Change::State { .. } => None,
    })
}

/// The index entry of a change with its record at `pointer`.
pub(crate) fn version_entry(change: &KeyChange, pointer: RecordPointer) -> VersionEntry {
    VersionEntry {
        pointer,
        main: change.revision.main,
        tombstone: change.tombstone,
    }
}
