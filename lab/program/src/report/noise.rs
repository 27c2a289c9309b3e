//! Noise of the machine: the differences between a target and its own copy.

use serde::Serialize;

use super::verdicts::{shown, within};
use crate::record::{ARM_A, ARM_A_AGAIN, Cell, Record, Run};
use crate::statistics::log_ratio::log_ratio;
use crate::verdict::evidence::compares;
use crate::verdict::measures::measures;

/// One metric of a target and of its copy.
#[derive(Clone, Debug, Serialize)]
pub struct NoiseLine {
    pub cell: String,
    pub metric: String,
    /// The copy against the original, such as `+0.4 % [-1, 1.8]`.
    pub change: String,
    /// Band that contains the difference in 95 of 100 experiments with as many pairs.
    pub band: String,
    /// Standard deviation of one pair.
    pub deviation: String,
    /// Number of pairs.
    pub pairs: usize,
}

/// The noise of each cell, in records with a copy of A and no B. Comparisons show their band
/// beside each verdict instead.
pub fn noise(record: &Record) -> Vec<NoiseLine> {
    if compares(record) {
        return Vec::new();
    }
    let cells = record.cells().into_iter();
    cells.flat_map(|cell| of_cell(record, cell)).collect()
}

fn of_cell(record: &Record, cell: &Cell) -> Vec<NoiseLine> {
    let here: Vec<&Run> = record.valid_runs_of(cell).collect();
    let open_loop = here.iter().any(|run| run.load.rate_offered.is_some());
    let lines = measures(open_loop).into_iter().filter_map(|measure| {
        let log = |run: &Run| {
            let value = (measure.of)(run).filter(|it| *it > 0.0 && it.is_finite());
            value.map(f64::ln)
        };
        let copies = here.iter().filter(|run| run.arm == ARM_A_AGAIN);
        let logs: Vec<f64> = copies
            .filter_map(|copy| {
                let mut originals = here.iter().filter(|run| run.arm == ARM_A);
                let original = originals.find(|run| run.pair == copy.pair)?;
                Some(log(copy)? - log(original)?)
            })
            .collect();
        let ratio = log_ratio(&logs, 0).filter(|ratio| ratio.freedom > 0)?;
        Some(NoiseLine {
            cell: cell.name.clone(),
            metric: measure.metric.name.clone(),
            change: shown(&ratio, 1.0),
            band: within(ratio.band()),
            deviation: within(ratio.deviation),
            pairs: ratio.pairs,
        })
    });
    lines.collect()
}
