//! Verdicts on a map of ratios: one for each cell, and a headline for all.
//!
//! Among 49 cells some differ by chance. A cell is called different only if it passes
//! Benjamini and Hochberg's bound over the map (on average, at most 5 % of the called cells
//! are wrong), reaches the minimum effect, and lies outside the band of A against its own
//! copy over the same cells. The headline is the geometric mean, which is far more precise
//! than a single cell; the least and the greatest cell grow with the noise.

use super::conclusion::{Conclusion, Refusal};
use super::judge::Rules;
use crate::statistics::discovery::adjusted;
use crate::statistics::geometric::geometric_over_cells;
use crate::statistics::log_ratio::{LogRatio, log_ratio, percent};
use crate::statistics::{further_pairs, student::student_quantile};

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
    /// Probability of the effect, corrected for the number of cells.
    pub adjusted_p: f64,
    pub conclusion: Conclusion,
}

/// Verdict on a map.
#[derive(Clone, Debug, PartialEq)]
pub struct MapVerdict {
    /// Verdicts in the order of the cells.
    pub cells: Vec<CellVerdict>,
    /// The geometric mean of all cells.
    pub headline: Option<LogRatio>,
    /// The geometric mean of the control.
    pub control: Option<LogRatio>,
    /// Effect that a single cell of A against A does not exceed in 95 of 100 experiments; 0
    /// without a copy.
    pub cell_band: f64,
    /// Numbers of cells that got better, and that got worse.
    pub changed: [usize; 2],
    /// The conclusion on the whole map.
    pub conclusion: Conclusion,
}

/// Judges a map.
pub fn judge_map(cells: &[Cell], rules: &Rules) -> MapVerdict {
    let estimates: Vec<Option<LogRatio>> = cells
        .iter()
        .map(|cell| log_ratio(&cell.effects, 0))
        .collect();
    let band = cell_band(cells);
    let adjusted = adjusted_where_known(&estimates);
    let verdicts: Vec<CellVerdict> = estimates
        .into_iter()
        .zip(adjusted)
        .map(|(effect, adjusted_p)| CellVerdict {
            conclusion: cell_conclusion(effect.as_ref(), adjusted_p, band, rules),
            effect,
            adjusted_p,
        })
        .collect();
    let effects: Vec<Vec<f64>> = cells.iter().map(|cell| cell.effects.clone()).collect();
    let controls: Vec<Vec<f64>> = cells.iter().map(|cell| cell.controls.clone()).collect();
    let headline = geometric_over_cells(&effects);
    let control = geometric_over_cells(&controls);
    let count = |wanted: Conclusion| {
        let alike = verdicts.iter().filter(|cell| cell.conclusion == wanted);
        alike.count()
    };
    MapVerdict {
        changed: [count(Conclusion::Better), count(Conclusion::Worse)],
        conclusion: map_conclusion(headline.as_ref(), control.as_ref(), rules),
        cells: verdicts,
        headline,
        control,
        cell_band: band,
    }
}

/// Adjusted probabilities of the cells. Cells without pairs get 1 and do not count for the
/// correction of the others.
fn adjusted_where_known(estimates: &[Option<LogRatio>]) -> Vec<f64> {
    let known: Vec<f64> = estimates.iter().flatten().map(|it| it.p).collect();
    let mut corrected = adjusted(&known).into_iter();
    estimates
        .iter()
        .map(|estimate| {
            estimate
                .as_ref()
                .and_then(|_| corrected.next())
                .unwrap_or(1.0)
        })
        .collect()
}

/// One band for all cells, from their pooled variance: a single cell has too few repetitions
/// for a band of its own.
fn cell_band(cells: &[Cell]) -> f64 {
    let mut squares = 0.0;
    let mut freedom = 0.0;
    let mut repetitions = usize::MAX;
    for control in cells.iter().map(|cell| &cell.controls) {
        let Some(deviation) = crate::statistics::summary::deviation(control) else {
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

fn cell_conclusion(
    effect: Option<&LogRatio>,
    adjusted_p: f64,
    band: f64,
    rules: &Rules,
) -> Conclusion {
    let Some(effect) = effect else {
        return Conclusion::Refused(Refusal::NotMeasured);
    };
    let size = effect.middle.abs();
    if adjusted_p <= FALSE_SHARE && size > band && size >= rules.effect_min() {
        return if effect.middle > 0.0 {
            Conclusion::Better
        } else {
            Conclusion::Worse
        };
    }
    if effect.within(rules.effect_min()) {
        return Conclusion::Same;
    }
    Conclusion::Inconclusive {
        further: further_pairs(effect, rules.effect_min()),
    }
}

fn map_conclusion(
    headline: Option<&LogRatio>,
    control: Option<&LogRatio>,
    rules: &Rules,
) -> Conclusion {
    let Some(headline) = headline else {
        return Conclusion::Refused(Refusal::NotMeasured);
    };
    let minimum = rules.effect_min();
    if let Some(control) = control
        && control.excludes_equal()
        && control.middle.abs() >= minimum
    {
        let percent = percent(control.middle);
        return Conclusion::Refused(Refusal::MachineCannotTell { percent });
    }
    let band = control.map_or(0.0, |control| (control.high - control.low) / 2.0);
    let size = headline.middle.abs();
    if headline.excludes_equal() && size > band && size >= minimum {
        return if headline.middle > 0.0 {
            Conclusion::Better
        } else {
            Conclusion::Worse
        };
    }
    if headline.within(minimum) {
        return Conclusion::Same;
    }
    Conclusion::Inconclusive {
        further: further_pairs(headline, minimum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let verdict = judge_map(
            &cells(|cell| if cell == 4 { -0.3 } else { 0.0 }),
            &Rules::default(),
        );
        assert_eq!(verdict.changed, [0, 1], "{verdict:?}");
        assert_eq!(verdict.cells[4].conclusion, Conclusion::Worse);
    }

    #[test]
    fn a_change_of_all_cells_is_the_headline() {
        let verdict = judge_map(&cells(|_| 0.1), &Rules::default());
        assert_eq!(verdict.conclusion, Conclusion::Better);
        assert!((percent(verdict.headline.unwrap().middle) - 10.5).abs() < 1.0);
    }

    #[test]
    fn equal_maps_are_the_same() {
        let verdict = judge_map(&cells(|_| 0.0), &Rules::default());
        assert_eq!(
            (verdict.conclusion, verdict.changed),
            (Conclusion::Same, [0, 0])
        );
    }

    #[test]
    fn cells_that_did_not_run_are_refused_and_do_not_change_the_others() {
        let mut cells = cells(|_| 0.1);
        cells[3] = Cell::default();
        let verdict = judge_map(&cells, &Rules::default());
        assert_eq!(
            verdict.cells[3].conclusion,
            Conclusion::Refused(Refusal::NotMeasured)
        );
        assert_eq!(verdict.conclusion, Conclusion::Better);
        let empty = judge_map(&[], &Rules::default());
        assert_eq!(empty.conclusion, Conclusion::Refused(Refusal::NotMeasured));
    }
}
