//! Versions that a later change of the same transaction replaced.
//!
//! ```text
//!   txn at 7:  put k   put m   delete k          CURRENT  m → 7.1
//!              7.0     7.1     7.2†              HISTORY  k → 7.2†
//!                                                HIDDEN   7, place of 7.0, k
//! ```
//!
//! No read ever sees them: a revision shows what its transaction left behind.
//! But the log has them, so a watch reports them, and etcd keeps and hashes
//! them until a compaction at their revision or above. So does the engine: they count as
//! live, move with reclaim, and are dropped by [`forget_through`].
//!
//! The key starts with the revision, so a compaction drops a prefix of the
//! tree. The position is the one the record was written at; it tells apart what
//! one transaction did to one key, and stays when the record moves.

use crate::Snapshot;
use crate::live::Live;
use crate::trees::{HIDDEN, VersionEntry};
use ordered_index::Writer;
use std::collections::BTreeSet;
use std::ops::Bound;

const MAIN_BYTES: usize = 8;
const POSITION_BYTES: usize = 8;

/// The entry's key for a version of `key` that was just written at its place.
pub(crate) fn encode(key: &[u8], version: VersionEntry) -> Vec<u8> {
    let main = (version.main as u64).to_be_bytes();
    let position = version.pointer.position().to_bits().to_be_bytes();
    [&main, &position, key].concat()
}

/// The main revision and the user key of an entry; `None` for a key that this
/// module did not make.
pub(crate) fn decode(encoded: &[u8]) -> Option<(u64, &[u8])> {
    let (main, rest) = encoded.split_first_chunk::<MAIN_BYTES>()?;
    let (_, key) = rest.split_first_chunk::<POSITION_BYTES>()?;
    Some((u64::from_be_bytes(*main), key))
}

/// The smallest key that an entry of `main` can have.
pub(crate) fn first_of(main: i64) -> [u8; MAIN_BYTES] {
    (main.max(0) as u64).to_be_bytes()
}

/// Adds a version that its own transaction has replaced.
pub(crate) fn keep(writer: &mut Writer, live: &mut Live, key: &[u8], version: VersionEntry) {
    if let Some(twin) = writer.insert(HIDDEN, &encode(key, version), version.entry()) {
        live.died(VersionEntry::from(twin).pointer);
    }
}

/// The versions written from revision `from` to `to`, both included.
pub(crate) fn between(snapshot: &Snapshot, from: i64, to: i64) -> Vec<VersionEntry> {
    let mut found = Vec::new();
    each_between(snapshot, from, to, |_, version| found.push(version));
    found
}

/// The keys that the transaction of a revision deleted and put again.
pub(crate) fn keys_deleted_at(snapshot: &Snapshot, revision: i64) -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    each_between(snapshot, revision, revision, |encoded, version| {
        let key = decode(encoded).map(|(_, key)| key);
        keys.extend(key.filter(|_| version.tombstone).map(<[u8]>::to_vec));
    });
    keys
}

fn each_between(
    snapshot: &Snapshot,
    from: i64,
    to: i64,
    mut look: impl FnMut(&[u8], VersionEntry),
) {
    let (start, end) = (first_of(from), first_of(to.saturating_add(1)));
    let (start, end) = (Bound::Included(&start[..]), Bound::Excluded(&end[..]));
    let mut cursor = snapshot.trees.cursor(HIDDEN, start, end);
    while let Some((key, entry)) = cursor.next() {
        look(key, VersionEntry::from(entry));
    }
}

/// Drops at most `at_most` versions written at `revision` or before. True when
/// none is left.
pub(crate) fn forget_through(
    writer: &mut Writer,
    live: &mut Live,
    revision: i64,
    at_most: usize,
) -> bool {
    let end = first_of(revision + 1);
    let mut dropped = Vec::new();
    let mut cursor = writer.cursor(HIDDEN, Bound::Unbounded, Bound::Excluded(&end));
    while dropped.len() < at_most
        && let Some((key, _)) = cursor.next()
    {
        dropped.push(key.to_vec());
    }
    for key in &dropped {
        let entry = writer.remove(HIDDEN, key).expect("it was just seen");
        live.died(VersionEntry::from(entry).pointer);
    }
    dropped.len() < at_most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_pointer::RecordPointer;
    use crate::trees::TREES;
    use value_log::Position;

    fn version_entry(main: i64, offset: u64) -> VersionEntry {
        VersionEntry {
            pointer: RecordPointer::new(Position::new(1, offset), 128),
            main,
            tombstone: false,
        }
    }

    #[test]
    fn a_compaction_drops_exactly_what_is_not_above_it() {
        let (mut writer, reader) = ordered_index::new(TREES);
        let mut live = Live::default();
        for main in [2, 7, 7, 255, 256, 1000] {
            let version = version_entry(main, 64 * writer.len(HIDDEN));
            live.born(version.pointer);
            keep(&mut writer, &mut live, b"k", version);
        }
        for (revision, left) in [(1, 6), (6, 5), (7, 3), (255, 2), (999, 1), (1000, 0)] {
            while !forget_through(&mut writer, &mut live, revision, 2) {}
            writer.publish(1000);
            let snapshot = Snapshot {
                trees: reader.pin(),
            };
            assert_eq!(between(&snapshot, 1, i64::MAX).len(), left, "{revision}");
            assert_eq!(live.live_bytes(), 128 * left as u64, "{revision}");
        }
    }

    #[test]
    fn keeping_a_version_twice_counts_it_once() {
        let (mut writer, _reader) = ordered_index::new(TREES);
        let mut live = Live::default();
        for _ in 0..2 {
            live.born(version_entry(5, 64).pointer);
            keep(&mut writer, &mut live, b"k", version_entry(5, 64));
        }
        assert_eq!((writer.len(HIDDEN), live.live_bytes()), (1, 128));
    }

    #[test]
    fn revision_and_key_come_back() {
        let encoded = encode(b"a\0b", version_entry(9, 640));
        assert_eq!(decode(&encoded), Some((9, &b"a\0b"[..])));
        assert_eq!(decode(&encoded[..15]), None);
    }
}
