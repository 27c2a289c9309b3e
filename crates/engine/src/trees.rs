//! The four trees of the index, and what their entries mean.
//!
//! ```text
//!   CURRENT    key                     → newest version of each key that exists
//!   HISTORY    key, main descending    → superseded versions and tombstones
//!   HIDDEN     main, position, key     → versions that their own transaction replaced
//!   TURNOVER   main, key               → keys born and gone, lately
//!              (two shorter keys)      → since which revision; last compaction
//! ```
//!
//! They are published together, so a reader sees one moment. A version is in
//! exactly one of CURRENT, HISTORY and HIDDEN, and of what one transaction did
//! to a key only the last is in the first two. TURNOVER turns a count at a past
//! revision into a count now and a correction; it is bounded and starts anew
//! at open.

use crate::history_key;
use crate::place::Place;
use ordered_index::{Entry, Snapshot, Writer};

pub(crate) const CURRENT: usize = 0;
pub(crate) const HISTORY: usize = 1;
pub(crate) const HIDDEN: usize = 2;
pub(crate) const TURNOVER: usize = 3;
pub(crate) const TREES: usize = 4;
/// The trees whose entries are versions; a checkpoint holds these, in this order.
pub(crate) const OF_VERSIONS: [usize; 3] = [CURRENT, HISTORY, HIDDEN];

/// TURNOVER is complete for revisions above this entry's stamp.
pub(crate) const FLOOR_KEY: &[u8] = &[];
/// Its stamp is the last compacted revision.
pub(crate) const COMPACTED_KEY: &[u8] = &[0];
/// etcd's revision of an empty store.
pub(crate) const EMPTY_REVISION: i64 = 1;
/// Never compacted, as etcd counts.
pub(crate) const NEVER_COMPACTED: i64 = -1;

const TOMBSTONE: u64 = 1 << 63;

/// What an entry of CURRENT, HISTORY or HIDDEN says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) place: Place,
    pub(crate) main: i64,
    pub(crate) tombstone: bool,
}

impl Known {
    pub(crate) fn entry(self) -> Entry {
        let mark = if self.tombstone { TOMBSTONE } else { 0 };
        Entry {
            value: self.place.to_bits(),
            stamp: self.main as u64 | mark,
        }
    }
}

impl From<Entry> for Known {
    fn from(entry: Entry) -> Known {
        Known {
            place: Place::from_bits(entry.value),
            main: (entry.stamp & !TOMBSTONE) as i64,
            tombstone: entry.stamp & TOMBSTONE != 0,
        }
    }
}

/// Last compacted revision of a published state.
pub(crate) fn compacted(trees: &Snapshot) -> i64 {
    trees
        .get(TURNOVER, COMPACTED_KEY)
        .map_or(NEVER_COMPACTED, |entry| entry.stamp as i64)
}

pub(crate) fn set_compacted(writer: &mut Writer, revision: i64) {
    writer.insert(
        TURNOVER,
        COMPACTED_KEY,
        Entry {
            value: 0,
            stamp: revision as u64,
        },
    );
}

/// The entry of exactly that version, wherever it is.
pub(crate) fn find(trees: &Snapshot, key: &[u8], main: i64) -> Option<Known> {
    let current = trees
        .get(CURRENT, key)
        .map(Known::from)
        .filter(|known| known.main == main);
    current.or_else(|| {
        trees
            .get(HISTORY, &history_key::encode(key, main as u64))
            .map(Known::from)
    })
}
