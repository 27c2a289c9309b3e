//! A small histogram (2 KiB) for one interval of one thread, with 8 buckets in each power of
//! two. It is precise enough for a line in a plot; percentiles of a run come from
//! [`Histogram`](crate::record::Histogram).

const STEPS_BITS: u32 = 3;
const STEPS: usize = 1 << STEPS_BITS;
const BUCKETS: usize = 64 * STEPS;

/// Counts of times in nanoseconds, with a relative error of at most an eighth.
#[derive(Clone, Debug)]
pub struct Coarse {
    counts: Box<[u32; BUCKETS]>,
    max: u64,
}

impl Default for Coarse {
    fn default() -> Coarse {
        Coarse {
            counts: Box::new([0; BUCKETS]),
            max: 0,
        }
    }
}

impl Coarse {
    /// Counts one time.
    pub fn record(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.max = self.max.max(nanoseconds);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Coarse) {
        for (own, others) in self.counts.iter_mut().zip(other.counts.iter()) {
            *own += others;
        }
        self.max = self.max.max(other.max);
    }

    /// The longest time, in nanoseconds; 0 where nothing was counted.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The time in nanoseconds that `percent` of the counted times did not exceed; 0 where
    /// nothing was counted.
    pub fn percentile(&self, percent: f64) -> u64 {
        let all: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = (all as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank && seen > 0 {
                return middle(index).min(self.max);
            }
        }
        0
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < STEPS as u64 {
        return nanoseconds as usize;
    }
    let exponent = nanoseconds.ilog2();
    let step = (nanoseconds >> (exponent - STEPS_BITS)) as usize & (STEPS - 1);
    (exponent - STEPS_BITS + 1) as usize * STEPS + step
}

fn middle(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = (bucket / STEPS) as u32 - 1;
    let low = ((STEPS + bucket % STEPS) as u64) << shift;
    low + ((1 << shift) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_within_an_eighth_of_its_times() {
        for time in [0, 1, 7, 8, 9, 100, 12_345, 1 << 40, u64::MAX / 3] {
            let found = middle(bucket(time)) as f64;
            assert!(
                (found - time as f64).abs() <= time as f64 / 8.0,
                "{time}: {found}"
            );
        }
    }

    #[test]
    fn percentiles_are_within_an_eighth() {
        let mut coarse = Coarse::default();
        (1..=1000).for_each(|time| coarse.record(time * 1000));
        let p99 = coarse.percentile(99.0) as f64;
        assert!((p99 / 990_000.0 - 1.0).abs() < 0.125, "{p99}");
        assert_eq!(coarse.max(), 1_000_000);
        assert_eq!(Coarse::default().percentile(99.0), 0);
    }
}
