//! Durations in buckets that double.

use std::time::Duration;

use super::Counter;

/// Buckets with an upper bound; longer durations only count.
const BUCKETS: usize = 14;
/// Upper bound of the first bucket; each next one is twice as long.
const FIRST_BOUND: Duration = Duration::from_millis(1);

/// How often durations fell below each bound.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// Not cumulative; the last one is what lies above all bounds.
    buckets: [Counter; BUCKETS + 1],
    total_microseconds: Counter,
}

/// A histogram at one moment, cumulative as Prometheus wants it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// Upper bounds in seconds and how many lie at or below.
    pub(super) buckets: Vec<(f64, u64)>,
    /// All of them.
    pub(super) count: u64,
    /// Their sum in seconds.
    pub(super) sum: f64,
}

impl Histogram {
    /// Counts one duration.
    pub(crate) fn observe(&self, took: Duration) {
        let bucket = bucket_of(took);
        self.buckets[bucket].add(1);
        self.total_microseconds.add(took.as_micros() as u64);
    }

    /// What it says now.
    pub(super) fn read(&self) -> Reading {
        let mut count = 0;
        let mut below = |bucket: usize| {
            count += self.buckets[bucket].get();
            count
        };
        let buckets = (0..BUCKETS)
            .map(|b| (bound(b).as_secs_f64(), below(b)))
            .collect();
        let count = below(BUCKETS);
        Reading {
            buckets,
            count,
            sum: self.total_microseconds.get() as f64 / 1e6,
        }
    }
}

/// The first bucket whose bound is not below: the number of doublings.
fn bucket_of(took: Duration) -> usize {
    let firsts = took.as_nanos().div_ceil(FIRST_BOUND.as_nanos()).max(1);
    let doublings = u128::BITS - (firsts - 1).leading_zeros();
    BUCKETS.min(doublings as usize)
}

fn bound(bucket: usize) -> Duration {
    FIRST_BOUND * (1 << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let microseconds = (0..30_000)
            .step_by(7)
            .chain([999, 1000, 1001, 2000, 2001, 1 << 40]);
        for took in microseconds.map(Duration::from_micros) {
            let searched = (0..BUCKETS)
                .find(|bucket| took <= bound(*bucket))
                .unwrap_or(BUCKETS);
            assert_eq!(bucket_of(took), searched, "{took:?}");
        }
    }

    #[test]
    fn buckets_are_cumulative_and_long_ones_count() {
        let histogram = Histogram::default();
        for milliseconds in [1, 2, 3, 100_000] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        let reading = histogram.read();
        assert_eq!(reading.buckets[0], (0.001, 1));
        assert_eq!(reading.buckets[1], (0.002, 2));
        assert_eq!(reading.buckets[2], (0.004, 3));
        assert_eq!(reading.buckets.last(), Some(&(8.192, 3)));
        assert_eq!(reading.count, 4);
        assert!((reading.sum - 100.006).abs() < 1e-9);
    }
}
