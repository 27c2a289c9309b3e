//! Records of a walk that are announced to the device together: how many.
//!
//! ```text
//!   in order     │ 16 KiB │ 64 KiB │ 64 KiB │ ... │ a quarter of what was walked ─► 512 KiB
//!   scattered    │ 16 │ 32 │ 64 │ 128 │ 256 records, or 512 KiB │ 256 ...
//! ```
//!
//! A walk may end at any record, so it begins with little. What was announced for nothing took the device time in which
//! it could have read for others.

use crate::record_pointer::RecordPointer;

/// The device reads a gap of as many bytes between two records as well.
const GAP_BYTES_MAX: u64 = 4 << 10;
/// One more place takes a device at least as long as this many bytes more of the same place.
const PLACE_BYTES: u64 = 4 << 10;
/// Records in order have as many, or more, for each place.
const IN_ORDER_PER_PLACE: usize = 4;
/// A record continues one of this many places that others continued last: neighbours may lie in several segments, in turn.
const RECENT_PLACES: usize = 4;

/// Records that are announced together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadPortion {
    pub records: usize,
    /// Of the records, with the gaps between them that the device reads as well.
    bytes: u64,
    /// Places from which the device reads: records one behind the other, in either direction, are one place.
    places: usize,
}

impl ReadPortion {
    /// The first of these records, at least one.
    pub fn of(records: impl Iterator<Item = RecordPointer>, limits: PortionLimits) -> ReadPortion {
        let mut places = RecentPlaces::default();
        let (mut taken, mut next) = (ReadPortion::default(), ReadPortion::default());
        for record in records {
            let record = RecordPlace::of(record);
            match places.continue_with(record) {
                Some(gap) => next.bytes += gap,
                None => next.places += 1,
            }
            next.bytes += record.end - record.start;
            next.records += 1;
            if limits.are_exceeded_by(next) && taken.records > 0 {
                break;
            }
            taken = next;
        }
        taken
    }

    /// The time that the device takes for it, in bytes of one place.
    pub fn device_bytes(&self) -> u64 {
        self.bytes + self.places as u64 * PLACE_BYTES
    }

    pub fn is_in_order(&self) -> bool {
        self.places * IN_ORDER_PER_PLACE <= self.records
    }
}

/// The last records of places, the one that was continued last in front.
#[derive(Default)]
struct RecentPlaces([RecordPlace; RECENT_PLACES]);

impl RecentPlaces {
    /// The gap between the record and the place that it continues; `None`: it begins a place.
    fn continue_with(&mut self, record: RecordPlace) -> Option<u64> {
        let gap_to = |place: &RecordPlace| place.gap_to(record);
        let found = self.0.iter().position(|place| gap_to(place).is_some());
        let at = found.unwrap_or(RECENT_PLACES - 1);
        let gap = gap_to(&self.0[at]);
        self.0[..=at].rotate_right(1);
        self.0[0] = record;
        gap
    }
}

/// Where a record lies.
#[derive(Clone, Copy, Default)]
struct RecordPlace {
    /// No segment has the number 0.
    segment: u32,
    start: u64,
    end: u64,
}

impl RecordPlace {
    fn of(record: RecordPointer) -> RecordPlace {
        let start = record.position().offset();
        RecordPlace {
            segment: record.segment(),
            start,
            end: start + record.record_bytes(),
        }
    }

    /// Bytes between two records of one place.
    fn gap_to(&self, other: RecordPlace) -> Option<u64> {
        let gap = match other.start >= self.end {
            true => Some(other.start - self.end),
            false => self.start.checked_sub(other.end),
        };
        let gap = gap.filter(|gap| *gap <= GAP_BYTES_MAX);
        gap.filter(|_| self.segment == other.segment)
    }
}

/// How large a portion may be. One record is a portion whatever its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortionLimits {
    places: usize,
    /// Bytes of a portion in order that has more than [`PortionLimits::RECORDS`].
    pub in_order_bytes: u64,
}

impl PortionLimits {
    /// Bytes of several records, whatever their number.
    pub const BYTES: u64 = 512 << 10;
    const RECORDS: usize = 16;
    /// Of the beginning of a walk that may end soon.
    pub const FIRST: PortionLimits = PortionLimits {
        places: 16,
        in_order_bytes: 16 << 10,
    };
    /// Enough to keep a device busy.
    pub const WHOLE: PortionLimits = PortionLimits {
        places: 256,
        in_order_bytes: Self::BYTES,
    };
    /// Of portions behind the first. A read of fewer bytes takes the device hardly less time.
    const LATER_BYTES_MIN: u64 = 64 << 10;

    /// The limits of the next portion, in a walk that has looked at as many bytes ([`ReadPortion::device_bytes`]).
    pub fn behind(self, walked_bytes: u64) -> PortionLimits {
        let least = self.in_order_bytes.max(Self::LATER_BYTES_MIN);
        PortionLimits {
            places: (self.places * 2).min(Self::WHOLE.places),
            in_order_bytes: (walked_bytes / 4).clamp(least, Self::BYTES),
        }
    }

    fn are_exceeded_by(self, portion: ReadPortion) -> bool {
        let has_many = portion.records > Self::RECORDS && portion.is_in_order();
        portion.places > self.places
            || portion.bytes > Self::BYTES
            || portion.bytes > self.in_order_bytes && has_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value_log::Position;

    /// Records of these offsets and bytes.
    fn records(places: impl Iterator<Item = (u64, u64)>) -> impl Iterator<Item = RecordPointer> {
        places.map(|(offset, bytes)| RecordPointer::new(Position::new(3, offset), bytes))
    }

    fn in_order(bytes: u64) -> impl Iterator<Item = RecordPointer> {
        records((0..8_000).map(move |number| (4096 + number * bytes, bytes)))
    }

    fn scattered(bytes: u64) -> impl Iterator<Item = RecordPointer> {
        let place = move |number: u64| number * 7919 % 8000 * (bytes + 8192);
        records((0..8_000).map(move |number| (4096 + place(number), bytes)))
    }

    fn length(records: impl Iterator<Item = RecordPointer>, limits: PortionLimits) -> usize {
        ReadPortion::of(records, limits).records
    }

    #[test]
    fn records_in_order_are_announced_by_their_bytes_and_others_by_their_number() {
        let whole = PortionLimits::WHOLE;
        assert_eq!(length(in_order(160), whole), (512 << 10) / 160);
        let with_gaps = records((0..8_000).map(|number| (4096 + number * 4096, 160)));
        assert_eq!(length(with_gaps, whole), 128);
        assert_eq!(length(scattered(160), whole), 256);
        assert_eq!(length(scattered(4 << 10), whole), 128);
        let long = records([(4096, 4 << 20), (8 << 20, 160)].into_iter());
        assert_eq!(length(long, whole), 1);
        assert_eq!(length(std::iter::empty(), whole), 0);
    }

    #[test]
    fn a_walk_begins_with_few_records_and_goes_on_with_a_quarter_of_the_bytes_that_it_has_seen() {
        // Limits of 16, 64, 64, 160 and 512 KiB.
        let mut limits = PortionLimits::FIRST;
        for (walked, short, longer, apart, longer_apart) in [
            (16 << 10, 102, 16, 16, 16),
            (80 << 10, 409, 16, 32, 32),
            (640 << 10, 409, 16, 64, 64),
            (1 << 30, 1_024, 40, 128, 128),
            (0, 3_276, 128, 256, 128),
        ] {
            assert_eq!(length(in_order(160), limits), short);
            assert_eq!(length(in_order(4 << 10), limits), longer);
            assert_eq!(length(scattered(160), limits), apart);
            assert_eq!(length(scattered(4 << 10), limits), longer_apart);
            limits = limits.behind(walked);
        }
    }

    #[test]
    fn records_are_in_order_where_four_of_them_or_more_share_a_place() {
        let is_in_order = |lengths: &[u64], descends: bool| {
            let mut places = Vec::new();
            for (at, &length) in (1..).zip(lengths) {
                places.extend((0..length).map(|number| ((at << 20) + number * 160, 160)));
            }
            if descends {
                places.reverse();
            }
            ReadPortion::of(records(places.into_iter()), PortionLimits::WHOLE).is_in_order()
        };
        for descends in [false, true] {
            assert!(is_in_order(&[4], descends) && is_in_order(&[7, 1], descends));
            assert!(!is_in_order(&[3], descends) && !is_in_order(&[6, 1], descends));
        }
    }

    #[test]
    fn records_that_lie_in_a_few_places_in_turn_are_in_order() {
        let in_turn = |places: u64| {
            let place = move |number| ((1 + number % places) << 20) + number / places * 160;
            let records = records((0..80).map(move |number| (place(number), 160)));
            ReadPortion::of(records, PortionLimits::WHOLE).is_in_order()
        };
        assert!(in_turn(4));
        assert!(!in_turn(5));
    }

    #[test]
    fn a_gap_of_a_page_is_read_and_a_longer_one_is_not() {
        let device_bytes = |gap: u64| {
            let two = records([(4096, 160), (4096 + 160 + gap, 160)].into_iter());
            ReadPortion::of(two, PortionLimits::WHOLE).device_bytes()
        };
        assert_eq!(device_bytes(4096), 4096 + 320 + 4096);
        assert_eq!(device_bytes(4104), 2 * 4096 + 320);
    }
}
