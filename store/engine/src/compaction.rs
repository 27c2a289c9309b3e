//! Which versions outlive a compaction: etcd's rule.
//!
//! ```text
//!   versions of a key       2    4    7†      9      compact(8)
//!                           ✗    ✗    ✗       ✓
//!                                                    compact(7): keeps 7† and 9
//!                                                    compact(5): keeps 4, 7†, 9
//! ```
//!
//! Of the versions not above the compacted revision C the newest is kept and
//! the others go; a tombstone is kept only at exactly C (so that a watch may
//! start there). Everything above C stays. The rule looks at nothing above C,
//! so it does not matter whether a compaction runs before or after later
//! writes, and compacting to the greatest of several revisions is enough.
//!
//! *It never stops the writer.* `Applier::compact` publishes the compacted
//! revision, below which no reader looks any more, and that is all. The versions
//! that go are swept away later, a slice at a time, each published by itself:
//!
//! ```text
//!   creations   births and deaths up to C         (no count asks for them)
//!   HIDDEN     versions up to C                  (no hash asks for them)
//!   HISTORY    key by key, by the rule above
//! ```
//!
//! A slice may end in the middle of a key's versions. A tombstone that goes is therefore
//! held until all older versions have gone: otherwise they would show again, to
//! readers and in a checkpoint that is being written. A compaction that comes
//! during a sweep waits for its end and has a sweep of its own. After a restart
//! the sweep starts over: entries that it had dropped may be back.

use crate::accounting::Accounting;
use crate::hidden;
use crate::history_key;
use crate::live::Live;
use crate::trees::{CURRENT, HISTORY, VersionEntry};
use ordered_index::Writer;
use std::ops::Bound;

/// Entries looked at in one slice: some tenths of a millisecond.
const SLICE_ENTRIES: usize = 1024;

/// Whether the newest version not above `compacted` stays.
pub(crate) fn survives(newest: VersionEntry, compacted: i64) -> bool {
    !newest.tombstone || newest.main == compacted
}

/// Leaves those versions of a key that existed at revision `at` and that a compaction to
/// `compacted` keeps, the newest first.
pub(crate) fn keep((compacted, at): (i64, i64), versions: &mut Vec<VersionEntry>) {
    versions.retain(|version| version.main <= at);
    versions.sort_unstable_by_key(|version| std::cmp::Reverse(version.main));
    let above = versions.partition_point(|version| version.main > compacted);
    let newest = versions.get(above).copied();
    versions.truncate(above);
    versions.extend(newest.filter(|&newest| survives(newest, compacted)));
}

/// The tree that is being swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Hidden,
    History,
    Done,
}

/// Progress of the sweep after a compaction.
#[derive(Debug)]
pub(crate) struct Sweep {
    compacted: i64,
    begun: bool,
    stage: Stage,
    /// Last entry of HISTORY looked at; empty at the start.
    last: Vec<u8>,
    /// The key that entry belongs to (its prefix).
    prefix: Vec<u8>,
    /// Whether a version not above the compacted revision was met for it.
    decided: bool,
    /// Its tombstone, dropped after all older versions.
    held: Option<Vec<u8>>,
}

impl Sweep {
    /// A sweep for the compaction to `compacted`.
    pub(crate) fn new(compacted: i64) -> Sweep {
        Sweep {
            compacted,
            begun: false,
            stage: Stage::Hidden,
            last: Vec::new(),
            prefix: Vec::new(),
            decided: false,
            held: None,
        }
    }

    /// Revision of the compaction that it sweeps for.
    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Whether the first step was taken.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Looks at one slice and drops the versions that go; true when nothing is left.
    pub(crate) fn step(&mut self, writer: &mut Writer, accounting: &Accounting) -> bool {
        let compacted = self.compacted;
        if !std::mem::replace(&mut self.begun, true) {
            accounting.creations.lock().forget_through(compacted);
        }
        let live = &mut accounting.live.lock();
        match self.stage {
            Stage::Hidden if hidden::forget_through(writer, live, compacted, SLICE_ENTRIES) => {
                self.stage = Stage::History;
            }
            Stage::Hidden | Stage::Done => {}
            Stage::History => self.sweep_history(writer, live),
        }
        self.stage == Stage::Done
    }

    fn sweep_history(&mut self, writer: &mut Writer, live: &mut Live) {
        for key in &self.look(writer) {
            let entry = writer.remove(HISTORY, key).expect("it was just seen");
            live.died(VersionEntry::from(entry).pointer);
        }
    }

    fn look(&mut self, writer: &Writer) -> Vec<Vec<u8>> {
        let mut dropped = Vec::new();
        let start = std::mem::take(&mut self.last);
        let mut cursor = writer.cursor(HISTORY, Bound::Excluded(&start), Bound::Unbounded);
        for _ in 0..SLICE_ENTRIES {
            let Some((key, entry)) = cursor.next() else {
                self.stage = Stage::Done;
                dropped.extend(self.held.take());
                return dropped;
            };
            self.meet(writer, key, &mut dropped);
            if self.drops(key, VersionEntry::from(entry)) {
                dropped.push(key.to_vec());
            }
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        dropped
    }

    /// Begins another key if `key` is of one. Versions of a key come newest first, so the key
    /// before is finished then.
    fn meet(&mut self, writer: &Writer, key: &[u8], dropped: &mut Vec<Vec<u8>>) {
        let (prefix, _) = history_key::split(key);
        if self.prefix != prefix {
            dropped.extend(self.held.take());
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
            self.decided = current_is_newest(writer, key, self.compacted);
        }
    }

    /// Whether the entry goes now.
    fn drops(&mut self, key: &[u8], version: VersionEntry) -> bool {
        if version.main > self.compacted {
            return false;
        }
        let newest = !std::mem::replace(&mut self.decided, true);
        if newest && !survives(version, self.compacted) {
            self.held = Some(key.to_vec());
        }
        !newest
    }
}

/// Whether the newest version not above `compacted` is the current one.
fn current_is_newest(writer: &Writer, history_key: &[u8], compacted: i64) -> bool {
    let mut key = Vec::new();
    history_key::decode(history_key, &mut key);
    let current = writer.get(CURRENT, &key).map(VersionEntry::from);
    current.is_some_and(|version| version.main <= compacted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snapshot;
    use crate::record_pointer::RecordPointer;
    use crate::trees::{TREES, set_compacted};
    use value_log::Position;

    /// Puts version `main` of a key into HISTORY.
    fn add(writer: &mut Writer, accounting: &Accounting, key: &[u8], main: i64, tombstone: bool) {
        let version = VersionEntry {
            pointer: RecordPointer::new(Position::new(1, 64 * main as u64), 64),
            main,
            tombstone,
        };
        accounting.live.lock().born(version.pointer);
        let history_key = history_key::encode(key, main as u64);
        assert_eq!(
            writer.insert(HISTORY, &history_key, version.entry()),
            None,
            "{main} is new"
        );
    }

    /// More versions than one slice looks at, and then a deletion: at no moment
    /// does any of them show again.
    #[test]
    fn a_deleted_key_stays_deleted_wherever_a_slice_ends() {
        let versions = 5 * SLICE_ENTRIES as i64 / 2;
        let (mut writer, reader) = ordered_index::new(TREES);
        let accounting = Accounting::default();
        for main in 2..versions {
            add(&mut writer, &accounting, b"k", main, false);
        }
        add(&mut writer, &accounting, b"k", versions, true);
        let compacted = versions + 5;
        set_compacted(&mut writer, compacted);
        let mut sweep = Sweep::new(compacted);
        let mut slices = 0;
        while !sweep.step(&mut writer, &accounting) {
            writer.publish(compacted as u64 + 2);
            let trees = reader.pin();
            let left = trees.len(HISTORY);
            let snapshot = Snapshot { trees };
            assert_eq!(snapshot.get(b"k", compacted), None, "{left} left");
            slices += 1;
        }
        assert!(slices > 2, "{slices} slices");
        assert_eq!(
            (writer.len(HISTORY), accounting.live.lock().live_bytes()),
            (0, 0)
        );
    }

    #[test]
    fn a_version_superseded_during_the_sweep_of_its_key_is_kept() {
        let (mut writer, _reader) = ordered_index::new(TREES);
        let accounting = Accounting::default();
        let versions = 2 * SLICE_ENTRIES as i64;
        for main in 2..versions {
            add(&mut writer, &accounting, b"k", main, false);
        }
        let current = VersionEntry {
            pointer: RecordPointer::new(Position::new(2, 64), 64),
            main: versions,
            tombstone: false,
        };
        accounting.live.lock().born(current.pointer);
        writer.insert(CURRENT, b"k", current.entry());
        let mut sweep = Sweep::new(versions + 1);
        while sweep.last.is_empty() {
            assert!(
                !sweep.step(&mut writer, &accounting),
                "one slice is not all"
            );
        }
        writer.remove(CURRENT, b"k");
        let superseded = history_key::encode(b"k", versions as u64);
        writer.insert(HISTORY, &superseded, current.entry());
        add(&mut writer, &accounting, b"k", versions + 2, true);
        while !sweep.step(&mut writer, &accounting) {}
        assert_eq!(writer.get(HISTORY, &superseded), Some(current.entry()));
        assert_eq!(writer.len(HISTORY), 2, "it and the deletion above");
    }

    fn kept(compacted: i64, at: i64) -> Vec<i64> {
        let version = |(main, tombstone)| VersionEntry {
            pointer: RecordPointer::from_bits(0),
            main,
            tombstone,
        };
        let mut versions = [(2, false), (4, false), (7, true), (9, false)]
            .map(version)
            .to_vec();
        keep((compacted, at), &mut versions);
        versions.iter().map(|version| version.main).collect()
    }

    #[test]
    fn a_key_keeps_what_its_moment_shows_or_may_be_asked_for() {
        assert_eq!(kept(-1, 20), [9, 7, 4, 2]);
        assert_eq!(kept(-1, 8), [7, 4, 2]);
        assert_eq!(kept(5, 20), [9, 7, 4]);
        assert_eq!(kept(7, 20), [9, 7], "a deletion at the compaction itself");
        assert_eq!(kept(8, 20), [9]);
        assert_eq!(kept(8, 8), [0; 0], "the key is gone");
        assert_eq!(kept(1, 1), [0; 0], "it was not there yet");
    }
}
