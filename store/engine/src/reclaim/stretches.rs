//! Which records lie in the order of their keys.
//!
//! ```text
//!   window      k1  k2  k3  k4  k5  k6  k7  k8        neighbours in the order of keys
//!   segment 3   │k1│k2│k4│k5│k6│                      a stretch: ascending, one behind the other
//!   segment 9   │k7│ ........... │k3│ .... │k8│       out of order
//! ```
//!
//! A window that is copied becomes one stretch, or two at the end of a segment. So a short stretch in
//! order is copied only if that joins it to something: otherwise each walk would copy it again.

use crate::record_pointer::RecordPointer;
use std::collections::{BTreeMap, BTreeSet};

/// A stretch of fewer bytes is short: a device reads as many in little more time than it takes
/// to find them.
pub(super) const BYTES_MIN: u64 = 64 << 10;
/// Gaps may take one part in this many of a stretch's records: headers of frames, and some garbage.
const GAPS_PART: u64 = 4;

/// The records of a window that lie in one segment.
struct Stretch {
    start: u64,
    end: u64,
    record_bytes: u64,
    /// Each record lies behind the one before it.
    ascends: bool,
}

impl Stretch {
    fn new(offset: u64) -> Stretch {
        Stretch {
            start: offset,
            end: offset,
            record_bytes: 0,
            ascends: true,
        }
    }

    fn is_in_order(&self) -> bool {
        self.ascends && self.end - self.start <= self.record_bytes + self.record_bytes / GAPS_PART
    }

    fn is_short(&self) -> bool {
        self.record_bytes < BYTES_MIN
    }

    fn add(&mut self, offset: u64, record_bytes: u64) {
        self.ascends &= offset >= self.end;
        self.end = offset + record_bytes;
        self.record_bytes += record_bytes;
    }

    /// Whether a record at `offset` would lie close behind it.
    fn continues_at(&self, offset: u64) -> bool {
        offset
            .checked_sub(self.end)
            .is_some_and(|gap| gap < BYTES_MIN)
    }
}

/// The segments in which the records of the window stay where they are; they are among `full`.
pub(super) fn in_place(window: &[RecordPointer], full: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut stretches: BTreeMap<u32, Stretch> = BTreeMap::new();
    for pointer in window {
        let (segment, offset) = (pointer.segment(), pointer.position().offset());
        let stays = stays_alone(*pointer, full);
        let stretch = stretches.get(&segment);
        if stays && !stretch.is_some_and(|stretch| stretch.continues_at(offset)) {
            continue;
        }
        let stretch = stretches
            .entry(segment)
            .or_insert_with(|| Stretch::new(offset));
        stretch.add(offset, pointer.record_bytes());
    }
    let in_order =
        |(segment, stretch): &(&u32, &Stretch)| full.contains(segment) && stretch.is_in_order();
    let in_order: Vec<(&u32, &Stretch)> = stretches.iter().filter(in_order).collect();
    let long = in_order.iter().filter(|(_, stretch)| !stretch.is_short());
    let has_one_besides = stretches.len() == long.clone().count() + 1;
    in_order
        .iter()
        .filter(|(_, stretch)| !stretch.is_short() || has_one_besides)
        .map(|(segment, _)| **segment)
        .collect()
}

/// Whether a record stays, in whatever order: it is long, and its segment is not emptied for garbage.
pub(super) fn stays_alone(pointer: RecordPointer, full: &BTreeSet<u32>) -> bool {
    pointer.record_bytes() >= BYTES_MIN && full.contains(&pointer.segment())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value_log::Position;

    const BYTES: u64 = 1 << 10;

    fn pointer(segment: u32, offset: u64, bytes: u64) -> RecordPointer {
        RecordPointer::new(Position::new(segment, offset), bytes)
    }

    fn full() -> BTreeSet<u32> {
        (1..9).collect()
    }

    fn found(places: impl IntoIterator<Item = (u32, u64)>) -> Vec<u32> {
        let pointer = |(segment, offset)| pointer(segment, offset, BYTES);
        let window: Vec<_> = places.into_iter().map(pointer).collect();
        in_place(&window, &full()).into_iter().collect()
    }

    /// As many records of a KiB, one behind the other.
    fn run(segment: u32, records: u64) -> impl Iterator<Item = (u32, u64)> {
        (0..records).map(move |number| (segment, 4096 + number * BYTES))
    }

    #[test]
    fn records_behind_each_other_stay() {
        assert_eq!(found(run(3, 64)), [3]);
        assert_eq!(found(run(3, 2)), [3]);
        assert_eq!(found(run(3, 64).chain(run(4, 64))), [3, 4]);
    }

    #[test]
    fn short_stretches_stay_unless_they_can_be_joined() {
        assert_eq!(found(run(3, 64).chain(run(4, 63))), [3, 4]);
        assert_eq!(found(run(3, 64).chain(run(4, 63)).chain(run(5, 1))), [3]);
        assert!(found(run(3, 63).chain(run(4, 63))).is_empty());
        let with_others = run(3, 64).chain(run(4, 2)).chain(run(9, 1));
        assert_eq!(found(with_others), [3], "segment 9 is not full");
    }

    #[test]
    fn records_of_two_segments_may_alternate() {
        let places = (0..200).map(|n| (3 + n as u32 % 2, 4096 + n / 2 * BYTES));
        assert_eq!(found(places), [3, 4]);
    }

    #[test]
    fn records_that_descend_or_lie_among_others_are_out_of_order() {
        assert!(found((0..64).rev().map(|n| (3, 4096 + n * BYTES))).is_empty());
        let swapped = (0..64).map(|n| (3, 4096 + (n ^ 1) * BYTES));
        assert!(found(swapped).is_empty());
    }

    #[test]
    fn a_quarter_of_gaps_is_allowed_and_a_half_is_not() {
        let with_gap = |gap: u64| move |n: u64| (3, 4096 + n * (BYTES + gap));
        assert_eq!(found((0..64).map(with_gap(BYTES / 4))), [3]);
        assert!(found((0..64).map(with_gap(BYTES / 2))).is_empty());
    }

    #[test]
    fn records_in_segments_with_garbage_are_moved() {
        assert!(found(run(9, 64)).is_empty());
        assert!(!stays_alone(pointer(9, 4096, BYTES_MIN), &full()));
    }

    #[test]
    fn long_records_stay_in_any_order_and_disturb_no_stretch() {
        let long = |segment, offset| pointer(segment, offset, BYTES_MIN);
        assert!(stays_alone(long(3, 4096), &full()));
        let short = (0..8).map(|n| pointer(3, (8 << 20) + n * BYTES, BYTES));
        let mut window: Vec<_> = short.collect();
        // Before it, far behind it, and in another segment.
        window.insert(3, long(3, 4096));
        window.insert(5, long(3, 16 << 20));
        window.insert(6, long(4, 4096));
        assert_eq!(in_place(&window, &full()), BTreeSet::from([3]));
        // Between short ones, as a walk has written it.
        let between = [
            pointer(3, 4096, BYTES),
            long(3, 4096 + BYTES),
            pointer(3, 4096 + BYTES + BYTES_MIN, BYTES),
        ];
        assert_eq!(in_place(&between, &full()), BTreeSet::from([3]));
    }
}
