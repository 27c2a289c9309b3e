//! The four trees of the index, and what their entries mean.
//!
//! ```text
//!   CURRENT    key                     → newest version of each key that exists
//!   HISTORY    key, main descending    → superseded versions and tombstones
//!   HIDDEN     main, position, key     → versions that their own transaction replaced
//!   COMPACTION (one empty key)         → last compacted revision
//! ```
//!
//! They are published together, so a reader sees one moment. A version is in
//! exactly one of CURRENT, HISTORY and HIDDEN, and of what one transaction did
//! to a key only the last is in the first two.

use crate::history_key;
use crate::record_pointer::RecordPointer;
use ordered_index::{IndexEntry, Snapshot, Writer};

pub(crate) const CURRENT: usize = 0;
pub(crate) const HISTORY: usize = 1;
pub(crate) const HIDDEN: usize = 2;
pub(crate) const COMPACTION: usize = 3;
pub(crate) const TREES: usize = 4;
/// The trees with versions as entries; a checkpoint holds these, in this order.
pub(crate) const OF_VERSIONS: [usize; 3] = [CURRENT, HISTORY, HIDDEN];

/// Replaced bytes up to this limit stay until the next publish. More are freed at once, because
/// the next publish may not come: installing a snapshot of another member replaces a whole tree at once.
const REPLACED_BYTES_KEPT_MAX: u64 = 1 << 20;
/// Its stamp is the last compacted revision.
const COMPACTED_KEY: &[u8] = &[];
/// etcd's revision of an empty store.
pub(crate) const EMPTY_REVISION: i64 = 1;
/// Never compacted, as etcd counts.
pub(crate) const NEVER_COMPACTED: i64 = -1;

const TOMBSTONE: u64 = 1 << 63;

/// What an entry of CURRENT, HISTORY or HIDDEN says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionEntry {
    pub(crate) pointer: RecordPointer,
    pub(crate) main: i64,
    pub(crate) tombstone: bool,
}

impl VersionEntry {
    pub(crate) fn entry(self) -> IndexEntry {
        let mark = if self.tombstone { TOMBSTONE } else { 0 };
        IndexEntry {
            value: self.pointer.to_bits(),
            stamp: self.main as u64 | mark,
        }
    }
}

impl From<IndexEntry> for VersionEntry {
    fn from(entry: IndexEntry) -> VersionEntry {
        VersionEntry {
            pointer: RecordPointer::from_bits(entry.value),
            main: (entry.stamp & !TOMBSTONE) as i64,
            tombstone: entry.stamp & TOMBSTONE != 0,
        }
    }
}

/// Last compacted revision of a published state.
pub(crate) fn compacted(trees: &Snapshot) -> i64 {
    trees
        .get(COMPACTION, COMPACTED_KEY)
        .map_or(NEVER_COMPACTED, |entry| entry.stamp as i64)
}

/// Frees replaced memory, if it is more than `REPLACED_BYTES_KEPT_MAX`.
pub(crate) fn free_replaced(writer: &mut Writer) {
    if writer.garbage_bytes() > REPLACED_BYTES_KEPT_MAX {
        writer.collect();
    }
}

pub(crate) fn set_compacted(writer: &mut Writer, revision: i64) {
    writer.insert(
        COMPACTION,
        COMPACTED_KEY,
        IndexEntry {
            value: 0,
            stamp: revision as u64,
        },
    );
}

/// The entry of exactly that version, in CURRENT or in HISTORY.
pub(crate) fn find(trees: &Snapshot, key: &[u8], main: i64) -> Option<VersionEntry> {
    let current = trees
        .get(CURRENT, key)
        .map(VersionEntry::from)
        .filter(|version| version.main == main);
    current.or_else(|| {
        trees
            .get(HISTORY, &history_key::encode(key, main as u64))
            .map(VersionEntry::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ordered_index::BulkLoad;

    #[test]
    fn a_tree_that_was_replaced_goes_without_another_publish() {
        let (mut writer, reader) = ordered_index::new(TREES);
        for number in 0..500_000_u64 {
            writer.insert(CURRENT, &number.to_be_bytes(), IndexEntry::default());
        }
        writer.publish(1);
        let snapshot = reader.pin();
        writer.install(CURRENT, BulkLoad::new());
        writer.publish(2);
        (0..100).for_each(|_| free_replaced(&mut writer));
        let much = |writer: &Writer| writer.garbage_bytes() > REPLACED_BYTES_KEPT_MAX;
        assert!(much(&writer), "freed under a snapshot");
        drop(snapshot);
        // Other tests of this process hold the collector back for moments.
        for _ in 0..1_000_000 {
            free_replaced(&mut writer);
            if !much(&writer) {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{} bytes are not freed", writer.garbage_bytes());
    }
}
