//! Live bytes of each segment, summed over the entries of a checkpoint.

use super::unusable::Unusable;
use crate::live::Live;
use crate::record_pointer::RecordPointer;
use std::collections::BTreeSet;

/// Number of segments with a place that is remembered.
const RECENT: usize = 256;

/// The sums of one thread. Neighbouring keys point into any of the segments, so the
/// place of a segment is remembered under the low bits of its id.
#[derive(Debug)]
pub(super) struct SegmentSums {
    /// Ids of the segments that exist, ascending.
    ids: Vec<u32>,
    /// Bytes of records in each of them; `None` while no entry points into it.
    bytes: Vec<Option<u64>>,
    /// Places in `ids`, each to be compared before it is used.
    recent: [usize; RECENT],
}

impl SegmentSums {
    pub(super) fn new(present: &BTreeSet<u32>) -> SegmentSums {
        SegmentSums {
            ids: present.iter().copied().collect(),
            bytes: vec![None; present.len()],
            recent: [0; RECENT],
        }
    }

    /// Counts a record, if its segment exists.
    #[inline]
    pub(super) fn add(&mut self, pointer: RecordPointer) -> Result<(), Unusable> {
        let place = self.place_of(pointer.segment())?;
        let bytes = self.bytes[place].get_or_insert(0);
        *bytes += pointer.record_bytes();
        Ok(())
    }

    /// Only checks that the segment of a record exists.
    #[inline]
    pub(super) fn check(&mut self, pointer: RecordPointer) -> Result<(), Unusable> {
        self.place_of(pointer.segment()).map(drop)
    }

    #[inline]
    fn place_of(&mut self, segment: u32) -> Result<usize, Unusable> {
        let recent = &mut self.recent[segment as usize % RECENT];
        if self.ids.get(*recent) != Some(&segment) {
            let gone = |_| {
                Unusable::lost(format!(
                    "it points into segment {segment:08x}, which is gone"
                ))
            };
            *recent = self.ids.binary_search(&segment).map_err(gone)?;
        }
        Ok(*recent)
    }

    pub(super) fn add_to(&self, live: &mut Live) {
        for (&segment, bytes) in self.ids.iter().zip(&self.bytes) {
            if let Some(bytes) = *bytes {
                live.born_in(segment, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value_log::Position;

    fn pointer(segment: u32) -> RecordPointer {
        RecordPointer::new(Position::new(segment, 64), 128)
    }

    #[test]
    fn segments_with_equal_low_bits_do_not_mix() {
        let present = BTreeSet::from([1, 1 + RECENT as u32, 7, 1 + 2 * RECENT as u32]);
        let mut sums = SegmentSums::new(&present);
        for _ in 0..3 {
            for &segment in &present {
                sums.add(pointer(segment)).unwrap();
            }
            for gone in [0, 2, 7 + RECENT as u32] {
                let refused = sums.add(pointer(gone)).unwrap_err();
                assert!(refused.names_lost_segment, "{gone}");
                sums.check(pointer(gone)).unwrap_err();
            }
        }
        let mut live = Live::default();
        sums.add_to(&mut live);
        for &segment in &present {
            assert_eq!(live.of(segment).live_bytes, 3 * 128);
        }
        assert_eq!(live.live_bytes(), 12 * 128);
    }

    #[test]
    fn a_segment_that_no_entry_points_into_stays_unknown() {
        let mut sums = SegmentSums::new(&BTreeSet::from([1, 2]));
        sums.add(pointer(2)).unwrap();
        sums.check(pointer(1)).unwrap();
        let mut live = Live::default();
        sums.add_to(&mut live);
        assert!(!live.has(1) && live.has(2));
        SegmentSums::new(&BTreeSet::new())
            .add(pointer(0))
            .unwrap_err();
    }
}
