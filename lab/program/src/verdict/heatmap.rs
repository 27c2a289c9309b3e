//! Verdicts on a map of ratios: one for each cell, and a headline for all.
//!
//! Among 49 cells some differ by chance. A cell is called different only if it passes
//! Benjamini and Hochberg's bound over the map (on average, at most 5 % of the called cells
//! are wrong), reaches the minimum effect, and lies outside the band of A against its own
//! copy over the same cells. The headline is the geometric mean, which is far more precise
//! than a single cell; the least and the greatest cell grow with the noise.

use super::conclusion::{Conclusion, Refusal};
use crate::statistics::discovery::adjusted;
use crate::statistics::geometric::geometric_over_cells;
use crate::statistics::log_ratio::{LogRatio, log_ratio};
use crate::statistics::student::student_quantile;
use crate::statistics::summary::deviation;

/// Greatest mean share of wrong cells among those called different.
const FALSE_SHARE: f64 = 0.05;

/// One cell's paired log-ratios, positive where B is better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// B over A, one for each repetition.
    pub effects: Vec<f64>,
    /// The copy over A, in the same repetitions; empty without a copy.
    pub controls: Vec<f64>,
}

/// Verdict on a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellVerdict {
    /// B over A; `None` for a cell without pairs.
    pub effect: Option<LogRatio>,
    pub conclusion: Conclusion,
}

/// Verdict on a map.
#[derive(Clone, Debug, PartialEq)]
pub struct MapVerdict {
    /// Verdicts in the order of the cells.
    pub cells: Vec<CellVerdict>,
    /// The geometric mean of all cells.
    pub headline: Option<LogRatio>,
    /// Numbers of cells that got better, and that got worse.
    pub changed: [usize; 2],
    /// The conclusion on the whole map.
    pub conclusion: Conclusion,
}

/// Judges a map.
pub fn judge_map(cells: &[Cell]) -> MapVerdict {
    let effects = || cells.iter().map(|cell| log_ratio(&cell.effects, 0));
    let band = cell_band(cells);
    // Cells without pairs do not count for the correction of the others.
    let known: Vec<f64> = effects().flatten().map(|it| it.p).collect();
    let mut adjusted = adjusted(&known).into_iter();
    let verdicts = effects().map(|effect| {
        let adjusted_p = effect.and_then(|_| adjusted.next()).unwrap_or(1.0);
        let not_measured = Conclusion::Refused(Refusal::NotMeasured);
        let conclusion = effect.map_or(not_measured, |effect| {
            Conclusion::on(&effect, adjusted_p <= FALSE_SHARE, band)
        });
        CellVerdict { effect, conclusion }
    });
    let verdicts: Vec<CellVerdict> = verdicts.collect();
    let over_cells = |of: fn(&Cell) -> &Vec<f64>| geometric_over_cells(cells.iter().map(of));
    let headline = over_cells(|cell| &cell.effects);
    let control = over_cells(|cell| &cell.controls);
    let count = |wanted: Conclusion| {
        let alike = verdicts.iter().filter(|cell| cell.conclusion == wanted);
        alike.count()
    };
    MapVerdict {
        changed: [count(Conclusion::Better), count(Conclusion::Worse)],
        conclusion: map_conclusion(headline.as_ref(), control.as_ref()),
        cells: verdicts,
        headline,
    }
}

/// Effect that a single cell of A against A does not exceed in 95 of 100 experiments; 0
/// without a copy. It is one band for all cells, from their pooled variance: a single cell has too few repetitions
/// for a band of its own.
fn cell_band(cells: &[Cell]) -> f64 {
    let mut squares = 0.0;
    let mut freedom = 0.0;
    let mut repetitions = usize::MAX;
    for control in cells.iter().map(|cell| &cell.controls) {
        let Some(deviation) = deviation(control) else {
            continue;
        };
        squares += deviation.powi(2) * (control.len() - 1) as f64;
        freedom += (control.len() - 1) as f64;
        repetitions = repetitions.min(control.len());
    }
    if freedom == 0.0 {
        return 0.0;
    }
    student_quantile(0.975, freedom) * (squares / freedom / repetitions as f64).sqrt()
}

fn map_conclusion(headline: Option<&LogRatio>, control: Option<&LogRatio>) -> Conclusion {
    let Some(headline) = headline else {
        return Conclusion::Refused(Refusal::NotMeasured);
    };
    let refused = control.and_then(Conclusion::refused_by);
    refused.unwrap_or_else(|| {
        let band = control.map_or(0.0, |control| (control.high - control.low) / 2.0);
        Conclusion::on(headline, headline.excludes_equal(), band)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::log_ratio::percent;

    fn cells(effect: impl Fn(usize) -> f64) -> Vec<Cell> {
        (0..12)
            .map(|cell| Cell {
                effects: (0..5)
                    .map(|at| effect(cell) + noise(cell * 31 + at * 17))
                    .collect(),
                controls: (0..5).map(|at| noise(cell * 13 + at * 29 + 7)).collect(),
            })
            .collect()
    }

    /// Between -0.01 and 0.01.
    fn noise(seed: usize) -> f64 {
        ((seed * 2_654_435_761) % 2001) as f64 / 1e5 - 0.01
    }

    #[test]
    fn one_cell_that_changed_is_found_and_the_others_are_not() {
        let verdict = judge_map(&cells(|cell| if cell == 4 { -0.3 } else { 0.0 }));
        assert_eq!(verdict.changed, [0, 1], "{verdict:?}");
        assert_eq!(verdict.cells[4].conclusion, Conclusion::Worse);
    }

    #[test]
    fn a_change_of_all_cells_is_the_headline() {
        let verdict = judge_map(&cells(|_| 0.1));
        assert_eq!(verdict.conclusion, Conclusion::Better);
        assert!((percent(verdict.headline.unwrap().middle) - 10.5).abs() < 1.0);
    }

    #[test]
    fn equal_maps_are_the_same() {
        let verdict = judge_map(&cells(|_| 0.0));
        assert_eq!(
            (verdict.conclusion, verdict.changed),
            (Conclusion::Same, [0, 0])
        );
    }

    #[test]
    fn cells_that_did_not_run_are_refused_and_do_not_change_the_others() {
        let mut cells = cells(|_| 0.1);
        cells[3] = Cell::default();
        let verdict = judge_map(&cells);
        assert_eq!(
            verdict.cells[3].conclusion,
            Conclusion::Refused(Refusal::NotMeasured)
        );
        assert_eq!(verdict.conclusion, Conclusion::Better);
        let empty = judge_map(&[]);
        assert_eq!(empty.conclusion, Conclusion::Refused(Refusal::NotMeasured));
    }
}
