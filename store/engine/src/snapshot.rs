//! Reading: one moment of the index, at any revision that is not compacted.
//!
//! ```text
//!   revision   2    3    4    5    6    7 = revision()
//!   a          a2 ───────── a5 ─────────►      CURRENT: a5, c6
//!   b               b3 ─ †4                    HISTORY: a2, b3, †4
//!   c                              c6 ──►
//! ```
//!
//! At revision 4 the newest version not above 4 counts: `a2` from HISTORY,
//! nothing for `b` (a tombstone) and `c`.

use crate::Range;
use crate::history_key;
use crate::record_pointer::RecordPointer;
use crate::trees::{self, CURRENT, HISTORY, OF_VERSIONS, VersionEntry};
use bytes::Bytes;
use std::ops::Bound;

/// A version of a key, as the index knows it: what [`crate::Engine::read`]
/// needs to fetch it. It holds nothing back: before the read the record may move
/// (the read looks it up again) or be compacted (the read says so).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The key; it may share memory of 1 KiB with others of its range.
    pub key: Bytes,
    /// Main revision that wrote it.
    pub main: i64,
    /// True for a deletion; versions that a snapshot hands out never are.
    pub tombstone: bool,
    pub(crate) pointer: RecordPointer,
}

impl Version {
    /// Bytes that it takes in the log, and that a read of it fetches.
    pub fn log_bytes(&self) -> u64 {
        self.pointer.record_bytes()
    }

    pub(crate) fn entry(&self) -> VersionEntry {
        VersionEntry {
            main: self.main,
            tombstone: self.tombstone,
            pointer: self.pointer,
        }
    }

    pub(crate) fn new(key: Bytes, version: VersionEntry) -> Version {
        Version {
            key,
            main: version.main,
            tombstone: version.tombstone,
            pointer: version.pointer,
        }
    }
}

/// A consistent view of the index. It is bound to its thread, and no memory of replaced
/// entries is freed while it lives: take it, look, drop it.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) trees: ordered_index::Snapshot,
}

impl Snapshot {
    /// Last applied main revision; 1 when nothing was ever written.
    pub fn revision(&self) -> i64 {
        self.trees.mark() as i64
    }

    /// Last compacted main revision; -1 when never compacted.
    pub fn compacted(&self) -> i64 {
        trees::compacted(&self.trees)
    }

    /// Keys that exist now.
    pub fn keys(&self) -> u64 {
        self.trees.len(CURRENT)
    }

    /// Versions kept, tombstones included, and those that no revision shows
    /// because their own transaction replaced them.
    pub fn versions(&self) -> u64 {
        OF_VERSIONS.iter().map(|&tree| self.trees.len(tree)).sum()
    }

    /// The version of `key` visible at revision `at`, which the caller has
    /// checked against [`Snapshot::compacted`].
    pub fn get(&self, key: &[u8], at: i64) -> Option<Version> {
        let version = self.visible(key, at)?;
        Some(Version::new(Bytes::copy_from_slice(key), version))
    }

    /// The same without the key, which the caller has.
    pub(crate) fn visible(&self, key: &[u8], at: i64) -> Option<VersionEntry> {
        let current = self.trees.get(CURRENT, key).map(VersionEntry::from);
        let version = match current {
            Some(version) if version.main <= at => Some(version),
            None if at >= self.revision() => None,
            _ => self.newest_superseded(key, at),
        };
        version.filter(|version| !version.tombstone)
    }

    pub(crate) fn newest_superseded(&self, key: &[u8], at: i64) -> Option<VersionEntry> {
        let at = u64::try_from(at).ok()?;
        let (from, to) = (history_key::encode(key, at), history_key::encode(key, 0));
        let mut cursor = self
            .trees
            .cursor(HISTORY, Bound::Included(&from), Bound::Included(&to));
        cursor.next().map(|(_, entry)| VersionEntry::from(entry))
    }

    /// The versions visible at `at` with `start <= key < end` (`None`: to the
    /// last key), from both ends.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>, at: i64) -> Range<'_> {
        Range::new(self, start, end, at)
    }
}
