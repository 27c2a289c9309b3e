//! Keys and bytes of a range, in a bounded time.
//!
//! ```text
//!   newest revision:  keys   two walks from the root
//!                     bytes  every entry while there are steps, else a sample: one entry at a
//!                            random place of each of n equal parts
//!   a past revision:  a walk while there are steps, then the keys of now, corrected by the
//!                     noted creations and deletions; where these are gone, a lower bound
//! ```
//!
//! The bytes are those of the records in the log: the index knows them without reading one.

use std::ops::Bound;

use environment::randomness::Random;

use crate::Snapshot;
use crate::accounting::Accounting;
use crate::count::correct;
use crate::past_walk::{PastWalk, Step};
use crate::record_pointer::RecordPointer;
use crate::trees::CURRENT;

/// Most entries of a sample: its standard error is then at most 2 % of the bytes' own deviation.
const SAMPLE_MAX: u64 = 2048;
/// Steps of one entry of a sample: a walk from the root.
const SAMPLE_STEPS: u64 = 16;
/// Noted creations and deletions that are looked at for each step: they are cheaper.
const NOTES_OF_STEP: u64 = 4;

/// What a look at a range has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Keys of the range.
    pub keys: u64,
    /// Whether there may be more keys.
    pub is_lower_bound: bool,
    /// Bytes of their records in the log.
    pub log_bytes: u64,
    /// Whether the bytes are extrapolated from a part of the keys.
    pub is_estimate: bool,
}

type Bounds<'a> = (&'a [u8], Option<&'a [u8]>);

/// See [`crate::Engine::survey`].
pub(crate) fn survey(
    accounting: &Accounting,
    snapshot: &Snapshot,
    bounds: Bounds<'_>,
    at: i64,
    steps: &mut u64,
) -> Survey {
    match at >= snapshot.revision() {
        true => newest(snapshot, bounds, steps),
        false => past(accounting, snapshot, bounds, at, steps),
    }
}

fn newest(snapshot: &Snapshot, (start, end): Bounds<'_>, steps: &mut u64) -> Survey {
    let to = end.map_or(Bound::Unbounded, Bound::Excluded);
    let mut cursor = snapshot.trees.cursor(CURRENT, Bound::Included(start), to);
    let keys = cursor.remaining();
    if keys <= *steps {
        *steps -= keys;
        let entries = std::iter::from_fn(|| cursor.next_entry());
        return Survey {
            keys,
            log_bytes: entries.map(|entry| bytes_of(entry.value)).sum(),
            ..Survey::default()
        };
    }
    let parts = (*steps / SAMPLE_STEPS).min(SAMPLE_MAX);
    *steps -= parts * SAMPLE_STEPS;
    // The same keys give the same sample.
    let (mut sampled, mut random) = (0, Random::from_seed(keys));
    let part_start = |part: u64| scaled(keys, part, parts);
    for part in 0..parts {
        let width = part_start(part + 1) - part_start(part);
        let before = random.below(width);
        cursor.skip(before);
        let entry = cursor.next_entry().expect("a place within the range");
        sampled += bytes_of(entry.value);
        cursor.skip(width - before - 1);
    }
    Survey {
        keys,
        log_bytes: scaled(sampled, keys, parts),
        is_estimate: true,
        ..Survey::default()
    }
}

fn past(
    accounting: &Accounting,
    snapshot: &Snapshot,
    (start, end): Bounds<'_>,
    at: i64,
    steps: &mut u64,
) -> Survey {
    let notes_max = steps.saturating_mul(NOTES_OF_STEP);
    let mut walk = PastWalk::new(snapshot, start, end, at);
    let mut walked = Survey::default();
    loop {
        match walk.step(steps) {
            Step::Visible(version) => {
                walked.keys += 1;
                walked.log_bytes += version.pointer.record_bytes();
            }
            Step::End => return walked,
            Step::Stopped => break,
        }
    }
    // A statement of its own: the lock is not held while the notes are looked at.
    let recent = accounting.creations.lock().since(at, notes_max);
    let keys = recent.map(|recent| {
        let now = snapshot.trees.count(CURRENT, start, end);
        correct(&recent, (at, snapshot.revision()), (start, end), now)
    });
    Survey {
        keys: keys.unwrap_or(walked.keys),
        is_lower_bound: keys.is_none(),
        log_bytes: scaled(walked.log_bytes, keys.unwrap_or(walked.keys), walked.keys),
        is_estimate: true,
    }
}

fn bytes_of(pointer: u64) -> u64 {
    RecordPointer::from_bits(pointer).record_bytes()
}

/// `number` times `numerator` by `denominator`, rounded down; 0 by 0 is 0.
fn scaled(number: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(number) * u128::from(numerator);
    let quotient = product.checked_div(u128::from(denominator)).unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}
