//! Hints about records that are read next: to the device, and to the processor.

use crate::Position;
use crate::cached::Expected;
use crate::recent::Recent;
use crate::segment::Segment;

/// One of this many places is asked for whether it is in the page cache, unless the last answer was that one is not;
/// fewer of short lists, where nearly all records are cached (`cached.rs`). Records one behind the other are one place.
const CACHE_STRIDE: usize = 64;
/// A short list has up to [`CACHE_STRIDE`] records of together as many bytes.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// A place of more bytes has several pages: it is always asked, for all of them.
pub(crate) const PAGES_BYTES_MIN: usize = 8 << 10;
/// The longest gap between two records that are announced to the device together.
const ANNOUNCED_GAP_BYTES_MAX: u64 = 4 << 10;
/// Of several records the processor has room for the beginnings.
const BEGINNING_BYTES: usize = 512;
/// The processor notices by itself that the rest of a record is read.
const PREFETCHED_BYTES_MAX: usize = 4 << 10;

/// Where a record lies, and the [`Log::record_bytes`](crate::Log::record_bytes) of its payload; or the same of records
/// that lie together.
pub(crate) type Place = (Position, usize);

/// How many places have passed since one was asked for whether it is cached.
#[derive(Debug)]
pub(crate) struct Unasked {
    places: usize,
    /// The answers that other readers got count as well (`cached.rs`).
    trusts_others: bool,
}

impl Unasked {
    /// The next one is asked, unless others were answered that all is cached.
    pub fn new() -> Unasked {
        Unasked {
            places: CACHE_STRIDE,
            trusts_others: true,
        }
    }

    /// For records that are seldom read, so that what others were answered says nothing about them.
    pub fn of_seldom_read() -> Unasked {
        Unasked {
            trusts_others: false,
            ..Unasked::new()
        }
    }

    /// Whether the records seem to be in the page cache.
    pub fn are_cached(&mut self, segments: &mut Recent<'_>, records: &[Place]) -> bool {
        let counts_for_others = self.trusts_others && !records.iter().any(is_long);
        match counts_for_others.then(|| expected(segments, records)) {
            Some(Expected::Cached) => return true,
            Some(Expected::Turn) => self.places = CACHE_STRIDE,
            Some(Expected::Unknown) | None => {}
        }
        let all = without_small_gaps(records).all(|place| {
            let answer = self.ask(segments, &place);
            if let Some(is_cached) = answer.filter(|_| counts_for_others) {
                segments.log.shared.answers.note(is_cached);
            }
            answer.unwrap_or(true)
        });
        if !all {
            self.places = CACHE_STRIDE;
        }
        all
    }

    /// Whether a place is cached; `None` for one that is not asked.
    fn ask(&mut self, segments: &mut Recent<'_>, place: &Place) -> Option<bool> {
        self.places += 1;
        if self.places <= CACHE_STRIDE && !is_long(place) {
            return None;
        }
        self.places = 1;
        hint(segments, place, |segment, at, bytes| {
            segment.file.is_cached(at, bytes as u64)
        })
    }
}

/// The expectation for a short list, from what others were answered.
fn expected(segments: &Recent<'_>, records: &[Place]) -> Expected {
    let bytes = records.iter().map(|record| record.1).sum::<usize>();
    match records.len() <= CACHE_STRIDE && bytes <= SHORT_BYTES_MAX {
        true => segments.log.shared.answers.expected(records.len()),
        false => Expected::Unknown,
    }
}

fn is_long(place: &Place) -> bool {
    place.1 > PAGES_BYTES_MIN
}

/// Lets the device read these records beside each other. They ascend.
pub(crate) fn announce(segments: &mut Recent<'_>, records: &[Place]) {
    for range in without_small_gaps(records) {
        hint(segments, &range, |segment, offset, bytes| {
            segment.file.announce(offset, bytes as u64);
        });
    }
}

/// Lets the processor fetch the beginnings of these records beside each other. It notices by itself
/// that records are read which lie one behind the other.
pub(crate) fn prefetch(segments: &mut Recent<'_>, records: impl Iterator<Item = Place>) {
    let mut noticed = None;
    for record in records {
        let (segment, offset) = (record.0.segment(), record.0.offset());
        let is_noticed = noticed == Some((segment, offset));
        noticed = Some((segment, offset + record.1 as u64));
        if !is_noticed {
            hint(segments, &record, |segment, offset, bytes| {
                segment.file.prefetch(offset, bytes.min(BEGINNING_BYTES));
            });
        }
    }
}

/// Lets the processor fetch what follows the beginning of a record.
pub(crate) fn prefetch_rest(segments: &mut Recent<'_>, record: Place) {
    if record.1 > BEGINNING_BYTES {
        hint(segments, &record, |segment, offset, bytes| {
            let rest = bytes.min(PREFETCHED_BYTES_MAX) - BEGINNING_BYTES;
            segment.file.prefetch(offset + BEGINNING_BYTES as u64, rest);
        });
    }
}

/// Calls `hint` with segment, offset and bytes, unless the segment is gone or does not reach that
/// far.
fn hint<T>(
    segments: &mut Recent<'_>,
    &(position, bytes): &Place,
    hint: impl FnOnce(&Segment, u64, usize) -> T,
) -> Option<T> {
    let (segment, offset) = (segments.get(position)?, position.offset());
    let is_within = offset + bytes as u64 <= segment.header.segment_bytes;
    is_within.then(|| hint(segment, offset, bytes))
}

/// Places of the records, of which those that follow each other with small gaps, in either direction, are one.
fn without_small_gaps(records: &[Place]) -> impl Iterator<Item = Place> {
    records.chunk_by(lie_together).map(|records| {
        let (first, last) = (records[0], records[records.len() - 1]);
        let (start, end) = (first.0.min(last.0), end_of(&first).max(end_of(&last)));
        (start, (end - start.offset()) as usize)
    })
}

fn end_of((start, bytes): &Place) -> u64 {
    start.offset() + *bytes as u64
}

fn lie_together(one: &Place, next: &Place) -> bool {
    let (lower, upper) = if one.0 <= next.0 {
        (one, next)
    } else {
        (next, one)
    };
    let latest = end_of(lower) + ANNOUNCED_GAP_BYTES_MAX;
    lower.0.segment() == upper.0.segment() && upper.0.offset() <= latest
}
