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
//! left alone (`checkpoint/mod.rs` says why that is enough). Only batches up to
//! the greatest revision in the checkpoint are checked for such versions.

use crate::books::Books;
use crate::compaction::Sweep;
use crate::engine::{Engine, Shared};
use crate::live::Live;
use crate::maintenance::Maintenance;
use crate::place::{self, Place};
use crate::trees::{self, CURRENT, HIDDEN, HISTORY, Known};
use crate::turnover::Turn;
use crate::{Batch, Change, KeyChange, burial, hidden, history_key};
use ordered_index::Writer;
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use value_log::{Appended, Log, Position};

use crate::format::KEY_HEADER_BYTES;

/// Owned by the one thread that applies. It also starts checkpoints and
/// reclaim (`maintain`), because those need a moment between two batches.
#[derive(Debug)]
pub struct Applier {
    pub(crate) engine: Engine,
    pub(crate) index: Index,
    pub(crate) maintenance: Maintenance,
    /// The sweep that is under way or waits.
    pub(crate) sweep: Option<Sweep>,
    /// Compacted revision of the last finished sweep.
    pub(crate) swept: i64,
}

/// The writer's state.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) writer: Writer,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    pub(crate) applied_term: u64,
    pub(crate) applied_index: u64,
    /// Frame of the last applied batch.
    pub(crate) applied_position: Position,
}

impl Applier {
    /// The engine that this applier belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Makes a durable batch visible.
    pub fn apply(&mut self, batch: &Batch, appended: &Appended) {
        self.check_follows(batch);
        let shared = &self.engine.0;
        self.index.apply(&shared.books, batch, appended);
        self.index.publish(shared);
    }

    /// [`Applier::apply`] and [`Applier::compact`] to the batch's last revision, in one step:
    /// versions that the batch replaces are dropped at once, and only versions kept from before
    /// are left to sweep. For stores that are never read in the past: a deletion leaves no
    /// tombstone, where a compaction to its revision would keep one for a watch that starts
    /// there.
    pub fn apply_and_compact(&mut self, batch: &Batch, appended: &Appended) {
        if self.engine.0.holds.hold_back(i64::MAX) {
            self.apply(batch, appended);
            self.compact(self.index.revision);
            return;
        }
        self.check_follows(batch);
        let shared = &self.engine.0;
        let index = &mut self.index;
        index.supersede(&shared.books, batch, appended);
        index.compacted = index.revision;
        trees::set_compacted(&mut index.writer, index.revision);
        index.publish(shared);
        if index.kept_versions() > 0 {
            self.begin_sweep();
        }
    }

    /// Begins a sweep for the compacted revision, unless one has begun: that one is finished
    /// first, or frequent compactions would restart it for ever.
    fn begin_sweep(&mut self) {
        if !self.sweep.as_ref().is_some_and(Sweep::has_begun) {
            self.sweep = Some(Sweep::new(self.index.compacted));
        }
    }

    fn check_follows(&self, batch: &Batch) {
        let expected = self.index.revision + 1;
        if let Some((first, _)) = batch.mains() {
            assert_eq!(
                first, expected,
                "batch {} leaves a gap in the revisions",
                batch.index
            );
        }
        assert!(
            batch.index > self.index.applied_index,
            "batch {} was applied twice",
            batch.index
        );
    }

    /// Compacts to `revision`: reads below it fail from now on. Does nothing if the store is
    /// compacted that far already. [`Applier::maintain`] drops the versions below it that are
    /// not kept, a slice at a time; [`Applier::finish_compaction`] drops them at once. After an
    /// open the caller calls this with the last compaction that was replayed.
    pub fn compact(&mut self, revision: i64) {
        let index = &mut self.index;
        if revision <= index.compacted {
            return;
        }
        assert!(
            revision <= index.revision,
            "compaction to {revision}, beyond the last revision"
        );
        index.compacted = revision;
        trees::set_compacted(&mut index.writer, revision);
        index.publish(&self.engine.0);
        self.begin_sweep();
    }

    /// Finishes all sweeps before it returns. While an [`crate::Export`] holds a sweep back,
    /// it returns with the sweep unfinished.
    pub fn finish_compaction(&mut self) {
        // Only this thread begins exports.
        while !self.is_held_back() {
            if !self.sweep_a_slice() {
                assert_eq!(self.swept(), self.index.compacted, "nothing is left to do");
                return;
            }
        }
    }

    /// Whether an export must be dropped before anything is swept.
    pub(crate) fn is_held_back(&self) -> bool {
        let holds = &self.engine.0.holds;
        let sweep = self.sweep.as_ref();
        sweep.is_some_and(|sweep| holds.hold_back(sweep.compacted()))
    }

    /// Revision of the last compaction with a finished sweep; -1: never compacted, or no sweep
    /// is finished yet.
    pub fn swept(&self) -> i64 {
        match self.sweep {
            Some(_) => self.swept,
            None => self.index.compacted,
        }
    }

    /// Sweeps one slice; false when nothing is left, or the sweep is held back.
    pub(crate) fn sweep_a_slice(&mut self) -> bool {
        if self.is_held_back() {
            return false;
        }
        let Some(sweep) = &mut self.sweep else {
            return false;
        };
        let (index, shared) = (&mut self.index, &self.engine.0);
        let before = index.kept_versions();
        let done = sweep.step(&mut index.writer, &shared.books);
        shared
            .counters
            .swept_versions
            .fetch_add(before - index.kept_versions(), Ordering::Relaxed);
        index.publish(shared);
        if done {
            self.swept = sweep.compacted();
            // Compactions since this sweep began get one sweep together, if they left anything
            // to drop.
            let behind = self.swept < index.compacted && index.kept_versions() > 0;
            shared.books.turnover().forget_through(index.compacted);
            self.sweep = behind.then(|| Sweep::new(index.compacted));
        }
        self.sweep.is_some()
    }
}

impl Index {
    /// Versions that only a compaction drops.
    fn kept_versions(&self) -> u64 {
        self.writer.len(HISTORY) + self.writer.len(HIDDEN)
    }

    /// Applies a batch without publishing it. The trees must hold none of its versions.
    pub(crate) fn apply(&mut self, books: &Books, batch: &Batch, appended: &Appended) {
        let (mut live, mut turnover) = (books.live(), books.turnover());
        if batch.changes.len() < burial::KEYS_MIN {
            for (change, position) in key_changes(batch, &appended.positions) {
                if let Some(turn) = self.apply_key(&mut live, change, position) {
                    turnover.note(change.revision.main, &change.key, turn);
                }
            }
        } else {
            let changes: Vec<_> = key_changes(batch, &appended.positions).collect();
            self.apply_runs(&mut live, &mut turnover, &changes);
        }
        drop((live, turnover));
        self.pass(books, batch, appended.start);
    }

    /// Like [`Index::apply`], but drops the versions that the batch replaces.
    fn supersede(&mut self, books: &Books, batch: &Batch, appended: &Appended) {
        let mut live = books.live();
        for (change, position) in key_changes(batch, &appended.positions) {
            let (key, known) = (&change.key[..], known(change, position));
            live.born(known.place);
            let before = if known.tombstone {
                self.bury(&mut live, key, known);
                self.writer.remove(CURRENT, key)
            } else {
                self.writer.insert(CURRENT, key, known.entry())
            };
            if let Some(before) = before {
                live.died(Known::from(before).place);
            }
        }
        drop(live);
        self.pass(books, batch, appended.start);
    }

    /// Keeps the tombstone if HISTORY has versions of the key that are not swept yet, because
    /// they would show again without it.
    fn bury(&mut self, live: &mut Live, key: &[u8], deletion: Known) {
        if self.writer.len(HISTORY) > 0 && self.newest_since(key, 0).is_some() {
            self.insert_history(live, key, deletion);
        } else {
            live.died(deletion.place);
        }
    }

    /// Like [`Index::apply`] for a replayed batch: versions that the checkpoint already holds
    /// are left alone.
    pub(crate) fn apply_again(&mut self, books: &Books, batch: &Batch, appended: &Appended) {
        let known = self.known_already(batch);
        let mut live = books.live();
        for (change, position) in key_changes(batch, &appended.positions) {
            let (key, main) = (&change.key, change.revision.main);
            if known.contains(&(&key[..], main)) {
                self.drop_stale(&mut live, key, main);
            } else {
                self.apply_key(&mut live, change, position);
            }
        }
        drop(live);
        self.pass(books, batch, appended.start);
    }

    /// Takes note that `batch` is applied.
    fn pass(&mut self, books: &Books, batch: &Batch, frame: Position) {
        let mains = batch.mains();
        let mut live = books.live();
        live.passed(frame.segment(), mains.map(|(_, last)| last), batch.index);
        drop(live);
        if let Some((first, _)) = mains {
            books.marks().note(first, frame);
        }
        self.applied_position = frame;
        self.revision = mains.map_or(self.revision, |(_, last)| last);
        self.applied_term = batch.term;
        self.applied_index = batch.index;
    }

    /// Applies one change. Returns whether it created or deleted the key; `None` for neither.
    pub(crate) fn apply_key(
        &mut self,
        live: &mut Live,
        change: &KeyChange,
        position: Position,
    ) -> Option<Turn> {
        let (key, known) = (&change.key[..], known(change, position));
        live.born(known.place);
        let before = if known.tombstone {
            self.insert_history(live, key, known);
            self.writer.remove(CURRENT, key)
        } else {
            self.writer.insert(CURRENT, key, known.entry())
        };
        let turn = match (before.is_some(), known.tombstone) {
            (false, false) => Some(Turn::Born),
            (true, true) => Some(Turn::Gone),
            (true, false) | (false, true) => None,
        };
        match before.map(Known::from) {
            Some(before) if before.main < known.main => self.insert_history(live, key, before),
            Some(before) => hidden::keep(&mut self.writer, live, key, before),
            None if !known.tombstone && change.revision.sub > 0 => {
                self.hide_deletion(live, key, known.main);
            }
            None => {}
        }
        turn
    }

    /// Moves the tombstone of `key` at `main` to HIDDEN, if there is one: the same transaction
    /// has put the key again.
    fn hide_deletion(&mut self, live: &mut Live, key: &[u8], main: i64) {
        let twin = history_key::encode(key, main as u64);
        if let Some(deletion) = self.writer.remove(HISTORY, &twin) {
            hidden::keep(&mut self.writer, live, key, Known::from(deletion));
        }
    }

    fn insert_history(&mut self, live: &mut Live, key: &[u8], known: Known) {
        let key = history_key::encode(key, known.main as u64);
        if let Some(twin) = self.writer.insert(HISTORY, &key, known.entry()) {
            live.died(Known::from(twin).place);
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
        let current = self.writer.get(CURRENT, key).map(Known::from);
        current.is_some_and(|known| known.main >= main) || self.newest_since(key, main).is_some()
    }

    /// The newest superseded version of `key` written at `main` or later.
    fn newest_since(&self, key: &[u8], main: i64) -> Option<Known> {
        let (newest, oldest) = (
            history_key::encode(key, u64::MAX),
            history_key::encode(key, main as u64),
        );
        let (newest, oldest) = (Bound::Included(&newest[..]), Bound::Included(&oldest[..]));
        let mut cursor = self.writer.cursor(HISTORY, newest, oldest);
        cursor.next().map(|(_, entry)| Known::from(entry))
    }

    /// Drops a version of `key` older than `main` that still stands in CURRENT. A checkpoint's
    /// walk may have met it there and its replacement later in HISTORY; by then the older version
    /// had moved to HISTORY too, or had been compacted.
    fn drop_stale(&mut self, live: &mut Live, key: &[u8], main: i64) {
        let current = self.writer.get(CURRENT, key).map(Known::from);
        if let Some(stale) = current.filter(|known| known.main < main) {
            self.writer.remove(CURRENT, key);
            live.died(stale.place);
        }
    }

    /// Makes everything applied so far visible to readers.
    pub(crate) fn publish(&mut self, shared: &Shared) {
        self.writer.publish(self.revision as u64);
        shared
            .applied_index
            .store(self.applied_index, Ordering::Release);
        shared
            .applied_term
            .store(self.applied_term, Ordering::Release);
        let bytes = self.writer.memory_bytes() + shared.books.turnover().heap_bytes();
        shared.index_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// The changes of keys in a batch, and where they lie.
fn key_changes<'b>(
    batch: &'b Batch,
    positions: &'b [Position],
) -> impl Iterator<Item = (&'b KeyChange, Position)> {
    assert_eq!(
        positions.len(),
        batch.changes.len(),
        "a change without a position"
    );
    let both = batch.changes.iter().zip(positions);
    both.filter_map(|(change, &position)| match change {
        Change::Key(change) => Some((change, position)),
        Change::State { .. } => None,
    })
}

/// The index entry of a change with its record at `position`.
pub(crate) fn known(change: &KeyChange, position: Position) -> Known {
    let payload = KEY_HEADER_BYTES + change.kv.len();
    let record_bytes = Log::record_bytes(payload + place::padding(payload)) as u64;
    Known {
        place: Place::new(position, record_bytes),
        main: change.revision.main,
        tombstone: change.tombstone,
    }
}
