//! Geometric means of ratios.
//!
//! The geometric mean is the only mean of ratios that does not depend on which side is called
//! the first. For the headline of a heatmap the log-ratios of the cells are the sample: over
//! 49 cells, the mean is about seven times as precise as a single cell.

use super::log_ratio::{LogRatio, log_ratio};
use super::summary::mean;

/// The geometric mean over cells of a ratio, with an interval.
///
/// `cells` holds, for each cell, one log-ratio per repetition. A repetition runs all cells
/// in the same minutes, so their noise is correlated. Each complete repetition therefore
/// gives one mean over all cells, and the interval is computed from these means, which does
/// not assume that cells are independent. With a single repetition, the spread between
/// cells is used instead.
pub fn geometric_over_cells<'a>(cells: impl Iterator<Item = &'a Vec<f64>>) -> Option<LogRatio> {
    let cells: Vec<&Vec<f64>> = cells.filter(|cell| !cell.is_empty()).collect();
    let of_repetition = |at: usize| -> Vec<f64> { cells.iter().map(|cell| cell[at]).collect() };
    match cells.iter().map(|cell| cell.len()).min()? {
        1 => log_ratio(&of_repetition(0), 0),
        repetitions => {
            let means = (0..repetitions).filter_map(|at| mean(&of_repetition(at)));
            log_ratio(&means.collect::<Vec<_>>(), 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_of_the_cells_averages_out_within_a_repetition() {
        let cells = [vec![0.10, 0.08, 0.12], vec![-0.06, -0.02, -0.10]];
        let found = geometric_over_cells(cells.iter()).unwrap();
        assert!((found.middle - 0.02).abs() < 1e-12);
        assert_eq!(found.pairs, 3);
        assert!(found.deviation < 0.011, "{found:?}");
    }

    #[test]
    fn cells_without_a_pair_are_left_out() {
        let cells = [vec![], vec![0.1, 0.1]];
        assert_eq!(geometric_over_cells(cells.iter()).unwrap().pairs, 2);
        assert_eq!(geometric_over_cells([vec![]].iter()), None);
    }
}
