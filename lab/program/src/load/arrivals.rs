//! Start times of the operations of an open loop, fixed before the first one begins.

use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Exp1};

use crate::workload::Process;

/// Most arrival times that are drawn and held in memory, at eight bytes each.
const POISSON_ARRIVALS_MAX: f64 = 64e6;

/// The time at which each operation is due, in nanoseconds since the plan's origin.
#[derive(Debug)]
pub enum Arrivals {
    /// At equal distances.
    Uniform { period_ns: f64 },
    /// Drawn from a Poisson process, ascending.
    Drawn(Vec<u64>),
}

impl Arrivals {
    /// Arrivals at `rate` per second for `seconds`. Fails where a Poisson process would need
    /// more than `POISSON_ARRIVALS_MAX` times.
    pub fn new(process: Process, rate: f64, seconds: f64, seed: u64) -> Result<Arrivals, String> {
        let period_ns = 1e9 / rate;
        match process {
            Process::Uniform => Ok(Arrivals::Uniform { period_ns }),
            Process::Poisson if rate * seconds > POISSON_ARRIVALS_MAX => Err(format!(
                "{rate} operations per second for {seconds} s are too many times to draw: \
                 write process = \"uniform\""
            )),
            Process::Poisson => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                let mut at = 0.0;
                let mut times = Vec::with_capacity((rate * seconds * 1.1) as usize);
                while at < seconds * 1e9 {
                    let gap: f64 = Exp1.sample(&mut random);
                    at += gap * period_ns;
                    times.push(at as u64);
                }
                Ok(Arrivals::Drawn(times))
            }
        }
    }

    /// The time at which operation number `index` is due; `None` behind the last one.
    pub fn at(&self, index: u64) -> Option<u64> {
        match self {
            Arrivals::Uniform { period_ns } => Some((index as f64 * period_ns) as u64),
            Arrivals::Drawn(times) => times.get(index as usize).copied(),
        }
    }

    /// Number of operations that are due before `now_ns`.
    pub fn due_before(&self, now_ns: u64) -> u64 {
        match self {
            Arrivals::Uniform { period_ns } => (now_ns as f64 / period_ns) as u64,
            Arrivals::Drawn(times) => times.partition_point(|time| *time < now_ns) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_process_has_equal_distances() {
        let arrivals = Arrivals::new(Process::Uniform, 1000.0, 1.0, 1).unwrap();
        assert_eq!(arrivals.at(7), Some(7_000_000));
        assert_eq!(arrivals.due_before(7_000_001), 7);
    }

    #[test]
    fn a_poisson_process_keeps_its_rate_and_has_exponential_gaps() {
        let arrivals = Arrivals::new(Process::Poisson, 100_000.0, 1.0, 7).unwrap();
        let Arrivals::Drawn(times) = &arrivals else {
            panic!("times are drawn");
        };
        let count = times.len() as f64;
        // The standard deviation of the count is its root.
        assert!((count - 1e5).abs() < 5.0 * 1e5_f64.sqrt(), "{count}");
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let longer = gaps.iter().filter(|gap| **gap > 10_000.0).count() as f64;
        let share = longer / gaps.len() as f64;
        assert!((share - (-1.0_f64).exp()).abs() < 0.01, "{share}");
        assert_eq!(arrivals.due_before(times[10]), 10);
    }

    #[test]
    fn too_many_draws_are_refused() {
        assert!(Arrivals::new(Process::Poisson, 1e8, 10.0, 1).is_err());
    }
}
