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
//! It runs in slices on the writer's thread, each published by itself. The
//! compacted revision is published first, and no reader looks below it.

use crate::history_key;
use crate::live::Live;
use crate::trees::{CURRENT, HISTORY, Known};
use ordered_index::Writer;
use std::ops::Bound;

/// Entries looked at between two publishes.
const SLICE_ENTRIES: usize = 16 << 10;

/// Whether the newest version not above `compacted` stays.
pub(crate) fn survives(newest: Known, compacted: i64) -> bool {
    !newest.tombstone || newest.main == compacted
}

/// Where a compaction has got to.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Last entry looked at; empty at the start.
    last: Vec<u8>,
    /// The key that entry belongs to (its prefix).
    prefix: Vec<u8>,
    /// Whether a version not above the compacted revision was met for it.
    decided: bool,
}

impl Sweep {
    /// Looks at one slice of HISTORY and drops what goes; true when done.
    pub(crate) fn step(&mut self, writer: &mut Writer, live: &mut Live, compacted: i64) -> bool {
        let (dropped, done) = self.look(writer, compacted);
        for key in &dropped {
            let entry = writer.remove(HISTORY, key).expect("it was just seen");
            live.died(Known::from(entry).place);
        }
        done
    }

    fn look(&mut self, writer: &Writer, compacted: i64) -> (Vec<Vec<u8>>, bool) {
        let mut dropped = Vec::new();
        let start = std::mem::take(&mut self.last);
        let mut cursor = writer.cursor(HISTORY, Bound::Excluded(&start), Bound::Unbounded);
        for _ in 0..SLICE_ENTRIES {
            let Some((key, entry)) = cursor.next() else {
                return (dropped, true);
            };
            if self.drops(writer, key, Known::from(entry), compacted) {
                dropped.push(key.to_vec());
            }
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        (dropped, false)
    }

    /// Versions of a key come newest first.
    fn drops(&mut self, writer: &Writer, key: &[u8], known: Known, compacted: i64) -> bool {
        let (prefix, _) = history_key::split(key);
        if self.prefix != prefix {
            self.prefix = prefix.to_vec();
            self.decided = current_is_newest(writer, key, compacted);
        }
        if known.main > compacted {
            return false;
        }
        let newest = !std::mem::replace(&mut self.decided, true);
        !(newest && survives(known, compacted))
    }
}

/// Whether the newest version not above `compacted` is the current one.
fn current_is_newest(writer: &Writer, history_key: &[u8], compacted: i64) -> bool {
    let mut key = Vec::new();
    history_key::decode(history_key, &mut key);
    let current = writer.get(CURRENT, &key).map(Known::from);
    current.is_some_and(|known| known.main <= compacted)
}
