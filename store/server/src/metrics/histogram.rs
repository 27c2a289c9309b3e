//! Histograms: counts of values by upper bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Counter;

/// `N` bounds, each twice the one before.
const fn doubling<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut place = 1;
    while place < N {
        bounds[place] = 2.0 * bounds[place - 1];
        place += 1;
    }
    bounds
}

/// etcd's bounds for what waits for a disk: 1 ms to 8 s.
pub(crate) const DISK_SECONDS: &[f64] = &doubling::<14>(0.001);
/// etcd's bounds for what works in memory: 0.1 ms to 52 s.
pub(crate) const MEMORY_SECONDS: &[f64] = &doubling::<20>(0.0001);
/// etcd's bounds for round trips between members: 0.1 ms to 3 s.
pub(crate) const ROUND_TRIP_SECONDS: &[f64] = &doubling::<16>(0.0001);
/// etcd's bounds for walks over everything: 10 ms to 164 s.
pub(crate) const HASH_SECONDS: &[f64] = &doubling::<15>(0.01);
/// etcd's bounds for Defragment: 0.1 s to 410 s.
pub(crate) const DEFRAGMENT_SECONDS: &[f64] = &doubling::<13>(0.1);
/// etcd's bounds for snapshots of its store: 10 ms to 655 s.
pub(crate) const SNAPSHOT_SECONDS: &[f64] = &doubling::<17>(0.01);
/// etcd's bounds for snapshots that are saved: 0.1 s to 51 s.
pub(crate) const SAVE_SECONDS: &[f64] = &doubling::<10>(0.1);
/// etcd's bounds for whole compactions: 0.1 s to 819 s.
pub(crate) const COMPACTION_MILLISECONDS: &[f64] = &doubling::<14>(100.0);
/// etcd's bounds for the pauses that compaction makes in its store.
pub(crate) const PAUSE_MILLISECONDS: &[f64] = &doubling::<13>(1.0);
/// etcd's bounds for the pauses that compaction makes in its index.
pub(crate) const INDEX_PAUSE_MILLISECONDS: &[f64] = &doubling::<14>(0.5);
/// etcd's bounds for times to live: 1 s to 97 days.
pub(crate) const LEASE_SECONDS: &[f64] = &doubling::<24>(1.0);
/// Prometheus' own bounds, which gRPC's calls have.
pub(crate) const CALL_SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Counts values by the bucket that they fall into.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// Not cumulative; the last one counts the values above all bounds.
    buckets: Vec<Counter>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

/// A histogram's values at one moment, cumulative as Prometheus' format requires.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// Upper bounds, each with the number of values at or below it.
    pub(super) buckets: Vec<(f64, u64)>,
    /// Number of all values.
    pub(super) count: u64,
    /// Sum of all values.
    pub(super) sum: f64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, which must ascend.
    pub(crate) fn new(bounds: &'static [f64]) -> Histogram {
        Histogram {
            bounds,
            buckets: (0..=bounds.len()).map(|_| Counter::default()).collect(),
            sum: AtomicU64::new(0f64.to_bits()),
        }
    }

    /// Counts one duration, in seconds.
    pub(crate) fn observe(&self, took: Duration) {
        self.add(took.as_secs_f64());
    }

    /// Counts one value, in the unit of the bounds.
    pub(crate) fn add(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].add(1);
        let order = Ordering::Relaxed;
        let mut sum = self.sum.load(order);
        while let Err(newer) = self.sum.compare_exchange_weak(
            sum,
            (f64::from_bits(sum) + value).to_bits(),
            order,
            order,
        ) {
            sum = newer;
        }
    }

    /// Whether no value was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.get() == 0)
    }

    /// The current values.
    pub(super) fn read(&self) -> Reading {
        let mut count = 0;
        let mut cumulative = Vec::with_capacity(self.bounds.len());
        for (place, bucket) in self.buckets.iter().enumerate() {
            count += bucket.get();
            cumulative.extend(self.bounds.get(place).map(|bound| (*bound, count)));
        }
        Reading {
            buckets: cumulative,
            count,
            sum: f64::from_bits(self.sum.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_a_bound_lies_below_it() {
        let histogram = Histogram::new(LEASE_SECONDS);
        for value in [0.5, 1.0, 1.5, 2.0, 2.5] {
            histogram.add(value);
        }
        let reading = histogram.read();
        assert_eq!(reading.buckets[..3], [(1.0, 2), (2.0, 4), (4.0, 5)]);
    }

    #[test]
    fn buckets_are_cumulative_and_long_ones_count() {
        let histogram = Histogram::new(DISK_SECONDS);
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
