//! How much of a table is run.

use clap::ValueEnum;

use crate::workload::{Span, Warmup, Workload};

/// How much of a table is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// In minutes on two cores: fewer keys and points, short runs
    Quick,
    /// All of it
    #[default]
    Full,
}

/// Of the keys, one in so many is left.
const FEWER: u64 = 10;
const MEASURE_SECONDS: f64 = 2.0;
const WARMUP_SECONDS_MAX: f64 = 3.0;
const INTERVAL_SECONDS: f64 = 0.25;
/// Points of a curve that are left: the first, the last and one between them.
const POINTS_MAX: usize = 3;

impl Scale {
    /// The workload in this scale.
    pub fn applied(self, mut workload: Workload) -> Workload {
        if self == Scale::Full {
            return workload;
        }
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
        if clients.len() > POINTS_MAX {
            let (last, between) = (clients.len() - 1, clients.len() / 2);
            *clients = vec![clients[0], clients[between], clients[last]];
        }
        workload
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
        let full = workloads::find("fillrandom").unwrap();
        assert_eq!(Scale::Quick.applied(full).clients.clients, [1, 16, 256]);
    }
}
