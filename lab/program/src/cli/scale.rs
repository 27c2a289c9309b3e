//! Scales of a published table: how much of it is run.

use clap::ValueEnum;

use crate::workload::{Span, Warmup, Workload};

/// How much of a table is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// A first look, 1 to 7 minutes on two cores: a tenth of the keys, short runs, 3 points of a curve
    Quick,
    /// A whole table in 2 to 12 minutes on two cores: as short, 5 points of a curve, at least 3 runs of each side
    Medium,
    /// All of it
    #[default]
    Full,
}

/// The number of keys is divided by this in the smaller scales.
const FEWER: u64 = 10;
const MEASURE_SECONDS: f64 = 2.0;
const WARMUP_SECONDS_MAX: f64 = 3.0;
const INTERVAL_SECONDS: f64 = 0.25;
/// Points of a curve that the smaller scales keep, its two ends among them.
const QUICK_POINTS_MAX: usize = 3;
const MEDIUM_POINTS_MAX: usize = 5;
/// Least number of runs for a median that one disturbed run cannot move far.
const MEDIUM_PAIRS_MIN: usize = 3;

impl Scale {
    /// The workload in this scale: fewer keys, shorter times, fewer points of a curve.
    pub fn applied(self, mut workload: Workload) -> Workload {
        let points_max = match self {
            Scale::Quick => QUICK_POINTS_MAX,
            Scale::Medium => MEDIUM_POINTS_MAX,
            Scale::Full => return workload,
        };
        workload.load.keys = workload.load.keys.div_ceil(FEWER);
        let time = &mut workload.time;
        time.measure = Span::seconds(MEASURE_SECONDS.min(time.measure.as_seconds()));
        time.interval = Span::seconds(INTERVAL_SECONDS.min(time.interval.as_seconds()));
        let longest = Span::seconds(WARMUP_SECONDS_MAX.min(time.warmup.max().as_seconds()));
        time.warmup = match time.warmup {
            Warmup::Fixed(_) => Warmup::Fixed(longest),
            Warmup::UntilSteady(_) => Warmup::UntilSteady(longest),
        };
        let clients = &mut workload.clients.clients;
        if clients.len() > points_max {
            let (last, steps) = (clients.len() - 1, points_max - 1);
            let places = (0..=steps).map(|step| (step * last).div_ceil(steps));
            *clients = places.map(|place| clients[place]).collect();
        }
        workload
    }

    /// Runs of each side in this scale, for a table that has `pairs` in full.
    pub fn pairs(self, pairs: usize) -> usize {
        match self {
            Scale::Medium => pairs.max(MEDIUM_PAIRS_MIN),
            Scale::Quick | Scale::Full => pairs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::workloads;

    #[test]
    fn a_quick_table_is_shorter_and_still_valid() {
        for name in ["fillrandom", "put", "rw-heatmap"] {
            let full = workloads::find(name).unwrap();
            assert_eq!(Scale::Full.applied(full.clone()), full);
            let quick = Scale::Quick.applied(full.clone());
            quick.check().unwrap();
            assert_eq!(quick.load.keys, full.load.keys.div_ceil(10));
            assert!(quick.time.measure.as_seconds() <= 2.0);
        }
    }

    #[test]
    fn a_curve_keeps_its_ends() {
        let points = |scale: Scale, name| {
            let full = workloads::find(name).unwrap();
            scale.applied(full).clients.clients
        };
        assert_eq!(points(Scale::Quick, "fillrandom"), [1, 16, 256]);
        assert_eq!(points(Scale::Medium, "fillrandom"), [1, 4, 16, 64, 256]);
    }

    #[test]
    fn a_medium_table_has_three_runs_of_each_side() {
        let pairs = [Scale::Quick, Scale::Medium, Scale::Full].map(|scale| scale.pairs(1));
        assert_eq!(pairs, [1, 3, 1]);
        assert_eq!(Scale::Medium.pairs(8), 8);
    }
}
