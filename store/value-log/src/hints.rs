//! Hints about records that are read next: to the device, and to the processor.

use crate::Position;
use crate::recent::Recent;
use crate::segment::Segment;

/// A record is asked for whether it is in the page cache, and then none of the next ones before there
/// are this many of them, or of bytes.
const UNASKED_MAX: usize = 64;
const UNASKED_BYTES_MAX: usize = 128 << 10;
/// The longest gap between two records that are announced to the device together.
const ANNOUNCED_GAP_BYTES_MAX: u64 = 4 << 10;
/// Of several records the processor has room for the beginnings.
const BEGINNING_BYTES: usize = 512;
/// The processor notices by itself that the rest of a record is read.
const PREFETCHED_BYTES_MAX: usize = 4 << 10;

/// A record's place, and the [`Log::record_bytes`](crate::Log::record_bytes) of its payload.
pub(crate) type Place = (Position, usize);

/// Whether the records seem to be in the page cache.
pub(crate) fn are_cached(segments: &mut Recent<'_>, records: &[Place]) -> bool {
    let (mut unasked, mut unasked_bytes) = (UNASKED_MAX, 0);
    records.iter().all(|record| {
        let is_asked = unasked >= UNASKED_MAX || unasked_bytes >= UNASKED_BYTES_MAX;
        if is_asked {
            (unasked, unasked_bytes) = (0, 0);
        }
        (unasked, unasked_bytes) = (unasked + 1, unasked_bytes + record.1);
        let is_cached = |segment: &Segment, at, _| segment.file.is_cached(at);
        !is_asked || hint(segments, record, is_cached).unwrap_or(true)
    })
}

/// Lets the device read these records beside each other. They ascend.
pub(crate) fn announce(segments: &mut Recent<'_>, records: &[Place]) {
    for range in without_small_gaps(records) {
        hint(segments, &range, |segment, offset, bytes| {
            segment.file.announce(offset, bytes as u64);
        });
    }
}

/// Lets the processor fetch the beginnings of these records beside each other.
pub(crate) fn prefetch(segments: &mut Recent<'_>, records: &[Place]) {
    for record in records {
        hint(segments, record, |segment, offset, bytes| {
            segment.file.prefetch(offset, bytes.min(BEGINNING_BYTES));
        });
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

/// Ranges of the records, those with small gaps between them as one.
fn without_small_gaps(records: &[Place]) -> impl Iterator<Item = Place> {
    let end = |&(start, bytes): &Place| start.offset() + bytes as u64;
    let lie_together = move |one: &Place, next: &Place| {
        let latest = end(one) + ANNOUNCED_GAP_BYTES_MAX;
        one.0.segment() == next.0.segment() && next.0.offset() <= latest
    };
    records.chunk_by(lie_together).map(move |range| {
        let (start, last) = (range[0].0, &range[range.len() - 1]);
        (start, (end(last) - start.offset()) as usize)
    })
}
