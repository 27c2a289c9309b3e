//! Keys and bytes of ranges at one revision, in a bounded time.
//!
//! ```text
//!   newest revision:  keys   two walks from the root
//!                     bytes  every entry while there are steps, else a sample: one entry at a
//!                            random place of each of n equal parts
//!   a past revision:  keys   those of now, less those created since, and those deleted since; where
//!                            these are not noted any more, a walk while there are steps
//!                     bytes  a walk while there are steps, else extrapolated from it
//! ```
//!
//! The bytes are those of the records in the log: the index knows them without reading one.

use std::ops::Bound;

use bytes::Bytes;
use environment::randomness::Random;

use crate::Snapshot;
use crate::accounting::Accounting;
use crate::creations::Transition;
use crate::past_walk::{PastWalk, Step};
use crate::record_pointer::RecordPointer;
use crate::trees::CURRENT;

/// Most entries of a sample: its standard error is then at most 2.3 % of the bytes' own deviation.
const SAMPLE_MAX: u64 = 2048;
/// Steps of one entry of a sample: a walk from the root.
const SAMPLE_STEPS: u64 = 16;

/// The findings of a look at a range.
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

/// Looks at ranges of one snapshot at one revision; made by [`crate::Engine::surveyor`].
#[derive(Debug)]
pub struct Surveyor<'a> {
    snapshot: &'a Snapshot,
    at: i64,
    /// Creations and deletions after `at`; `None` if they are not all known.
    since: Option<Since>,
}

impl<'a> Surveyor<'a> {
    pub(crate) fn new(accounting: &Accounting, snapshot: &'a Snapshot, at: i64) -> Surveyor<'a> {
        let since = match at >= snapshot.revision() {
            true => Some(Since::default()),
            false => Since::of(accounting, at, snapshot.revision()),
        };
        Surveyor {
            snapshot,
            at,
            since,
        }
    }

    /// The keys of a range, in O(log n); `None` if that takes a walk.
    pub fn count(&self, (start, end): Bounds<'_>) -> Option<u64> {
        let now = self.snapshot.trees.count(CURRENT, start, end);
        let since = self.since.as_ref()?;
        Some(since.correct(now, (start, end)))
    }

    /// Looks at a range within `steps`, from which the steps that it takes are subtracted. What does not
    /// fit is estimated.
    pub fn survey(&self, bounds: Bounds<'_>, steps: &mut u64) -> Survey {
        match self.at >= self.snapshot.revision() {
            true => self.newest(bounds, steps),
            false => self.past(bounds, steps),
        }
    }

    fn newest(&self, (start, end): Bounds<'_>, steps: &mut u64) -> Survey {
        let to = end.map_or(Bound::Unbounded, Bound::Excluded);
        let trees = &self.snapshot.trees;
        let mut cursor = trees.cursor(CURRENT, Bound::Included(start), to);
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

    fn past(&self, (start, end): Bounds<'_>, steps: &mut u64) -> Survey {
        let counted = self.count((start, end));
        if counted == Some(0) {
            return Survey::default();
        }
        let mut walk = PastWalk::new(self.snapshot, start, end, self.at);
        let mut walked = Survey::default();
        loop {
            match walk.step(steps) {
                Step::Visible(version) => {
                    walked.keys += 1;
                    walked.log_bytes += version.pointer.record_bytes();
                }
                Step::End => {
                    let agrees = counted.is_none_or(|counted| counted == walked.keys);
                    assert!(agrees, "{counted:?} keys counted, {} walked", walked.keys);
                    return walked;
                }
                Step::Stopped => break,
            }
        }
        let keys = counted.unwrap_or(walked.keys);
        Survey {
            keys,
            is_lower_bound: counted.is_none(),
            log_bytes: scaled(walked.log_bytes, keys, walked.keys),
            is_estimate: true,
        }
    }
}

/// The changes of counts by creations and deletions after a revision, by key.
#[derive(Debug, Default)]
struct Since {
    /// Ascending by key. The number beside a key is the sum of the changes up to it and of it: 1 for
    /// each deletion, and -1 for each creation.
    sums: Vec<(Bytes, i64)>,
}

impl Since {
    fn of(accounting: &Accounting, at: i64, now: i64) -> Option<Since> {
        // A statement of its own: the lock is not held while the notes are looked at.
        let recent = accounting.creations.lock().since(at, u64::MAX)?;
        let notes = recent
            .iter()
            .filter(|(main, ..)| *main > at && *main <= now);
        let changes = notes.map(|(_, transition, key)| {
            let change = match transition {
                Transition::Created => -1,
                Transition::Deleted => 1,
            };
            (Bytes::copy_from_slice(key), change)
        });
        let mut sums: Vec<(Bytes, i64)> = changes.collect();
        sums.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut sum = 0;
        for (_, change) in &mut sums {
            sum += *change;
            *change = sum;
        }
        Some(Since { sums })
    }

    fn correct(&self, now: u64, (start, end): Bounds<'_>) -> u64 {
        let before = |key: &[u8]| {
            let place = self.sums.partition_point(|(changed, _)| &changed[..] < key);
            place.checked_sub(1).map_or(0, |place| self.sums[place].1)
        };
        let last = self.sums.last().map_or(0, |(_, sum)| *sum);
        let change = end.map_or(last, before) - before(start);
        now.checked_add_signed(change)
            .expect("no more keys are created than there are")
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
