//! Seed 000: etcd's rw-heatmap of a build beside itself and beside another.
//!
//! As published, every write overwrites one key of 8 bytes and every read asks for the
//! first 100 keys. All runs of one build came before those of the other, on a server that
//! was never emptied. The lab keeps the load but not the order: it runs triples in random
//! order, each run on a server of its own. In the honest variant writes go to all keys, and
//! reads begin at any key.

use super::super::ab::triple;
use super::super::heatmap::{Axes, PAIRS, axis_option, points};
use super::super::scale::Scale;
use super::super::workloads;
use super::{Options, servers};
use crate::cli::finish::Measurement;
use crate::workload::Distribution;

const READS_AT_ONCE: u64 = 100;

/// Table 000, as published or honest.
pub fn table(options: &Options) -> Result<Measurement, String> {
    let (etcd, ours) = servers(options, "")?;
    let mut workload = workloads::find("rw-heatmap")?;
    if options.as_published {
        // One key gets all writes; the workload's reads begin at the first key already.
        let one = 1.0 / workload.load.keys as f64;
        workload.access.distribution = Distribution::Hot {
            keys: one,
            operations: 1.0,
        };
        workload.load.value.unique = false;
    } else {
        workload.mix.range.from_start = false;
        workload.mix.range.limit = READS_AT_ONCE;
    }
    if let Some((option, _)) = axis_option(&options.changes) {
        return Err(format!(
            "{option} is an axis of the map of table 000, which has its own numbers; \
             `inkstone-lab heatmap` draws a map of others"
        ));
    }
    let workload = options.changes.applied(options.scale.applied(workload))?;
    let points = points(&workload, &axes(options.scale))?;
    Ok(options.measurement("etcd's rw-heatmap", points, triple(&etcd, &ours), PAIRS))
}

fn axes(scale: Scale) -> Axes {
    match scale {
        Scale::Quick | Scale::Medium => Axes {
            ratios: vec![4.0, 0.25],
            values: vec![256, 4096],
            connections: vec![8, 64],
        },
        // The defaults of etcd's rw-benchmark.sh.
        Scale::Full => Axes {
            ratios: vec![0.0078125, 0.125, 0.25, 0.5, 2.0, 4.0, 8.0, 128.0],
            values: (8..=14).map(|power| 1 << power).collect(),
            connections: (5..=11).map(|power| 1 << power).collect(),
        },
    }
}
