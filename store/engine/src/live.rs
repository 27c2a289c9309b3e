//! How much of each segment is still needed: exact, to the byte.
//!
//! Every record of a key version is counted when the index first points at
//! it, moved when reclaim moves it, and subtracted when compaction drops it.
//! State records are never counted: a checkpoint's blob replaces them, and no
//! segment is released before one.

use crate::record_pointer::RecordPointer;
use std::collections::BTreeMap;

/// What is known about a segment beyond what the log knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentLife {
    /// Bytes of records that CURRENT, HISTORY or HIDDEN points at.
    pub(crate) live_bytes: u64,
    /// Last main revision in it; 0 for none. Sorted segments have none: the
    /// walk through the log never enters them.
    pub(crate) last_main: i64,
    /// Last applied batch in it.
    pub(crate) last_index: u64,
}

/// The counters of all segments.
#[derive(Debug, Default)]
pub(crate) struct Live {
    segments: BTreeMap<u32, SegmentLife>,
    live_bytes: u64,
}

impl Live {
    pub(crate) fn born(&mut self, pointer: RecordPointer) {
        self.born_in(pointer.segment(), pointer.record_bytes());
    }

    /// Counts records of one segment that were summed elsewhere.
    pub(crate) fn born_in(&mut self, segment: u32, bytes: u64) {
        self.segments.entry(segment).or_default().live_bytes += bytes;
        self.live_bytes += bytes;
    }

    /// Adds the live bytes that `other` counts.
    pub(crate) fn add(&mut self, other: &Live) {
        for (segment, life) in other.iter() {
            self.born_in(segment, life.live_bytes);
        }
    }

    pub(crate) fn died(&mut self, pointer: RecordPointer) {
        let bytes = pointer.record_bytes();
        let life = self
            .segments
            .get_mut(&pointer.segment())
            .expect("a record dies where it was born");
        let enough = "a segment never loses more bytes than it holds";
        life.live_bytes = life.live_bytes.checked_sub(bytes).expect(enough);
        self.live_bytes = self.live_bytes.checked_sub(bytes).expect(enough);
    }

    /// A batch that ends in `segment` was applied.
    pub(crate) fn passed(&mut self, segment: u32, last_main: Option<i64>, index: u64) {
        let life = self.segments.entry(segment).or_default();
        life.last_main = life.last_main.max(last_main.unwrap_or(0));
        life.last_index = life.last_index.max(index);
    }

    /// The segment was released.
    pub(crate) fn forget(&mut self, segment: u32) {
        let life = self.segments.remove(&segment).unwrap_or_default();
        assert_eq!(
            life.live_bytes, 0,
            "segment {segment:08x} was released with live records"
        );
    }

    /// The segment exists; nothing points into it yet.
    pub(crate) fn enter(&mut self, segment: u32) {
        self.segments.entry(segment).or_default();
    }

    pub(crate) fn has(&self, segment: u32) -> bool {
        self.segments.contains_key(&segment)
    }

    pub(crate) fn of(&self, segment: u32) -> SegmentLife {
        self.segments.get(&segment).copied().unwrap_or_default()
    }

    /// Last main revision in any of `segments`; 0 for none.
    pub(crate) fn last_main_in(&self, segments: &[u32]) -> i64 {
        let mains = segments.iter().map(|&id| self.of(id).last_main);
        mains.max().unwrap_or(0)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, SegmentLife)> {
        self.segments.iter().map(|(&id, &life)| (id, life))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value_log::Position;

    fn pointer(segment: u32, offset: u64) -> RecordPointer {
        RecordPointer::new(Position::new(segment, offset), 128)
    }

    #[test]
    fn bytes_are_counted_where_they_lie() {
        let mut live = Live::default();
        live.born(pointer(1, 64));
        live.born(pointer(1, 192));
        live.born(pointer(2, 64));
        live.died(pointer(1, 64));
        assert_eq!(
            (
                live.of(1).live_bytes,
                live.of(2).live_bytes,
                live.live_bytes()
            ),
            (128, 128, 256)
        );
    }

    #[test]
    #[should_panic(expected = "more bytes than it holds")]
    fn a_record_cannot_die_twice() {
        let mut live = Live::default();
        live.born(pointer(1, 64));
        live.died(pointer(1, 64));
        live.died(pointer(1, 64));
    }
}
