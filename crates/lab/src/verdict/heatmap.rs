//! A map of ratios: one verdict for each cell, one headline for all.
//!
//! Among 49 cells some differ by chance. A cell is called different only if it
//! survives Benjamini and Hochberg's bound over the map (at most 5 % of the
//! called cells are wrong, on average), reaches the minimum effect, and lies
//! outside the band that A against its own copy draws over the same cells. The
//! headline is the geometric mean: over many cells it is far sharper than the
//! least and the greatest cell, which grow with the noise.

use super::judge::Rules;
use super::word::{Refusal, Word};
use crate::statistics::discovery::adjusted;
use crate::statistics::geometric::geometric_over_cells;
use crate::statistics::log_ratio::{LogRatio, log_ratio, percent};
use crate::statistics::{further_pairs, student::student_quantile};

/// The share of the cells called different that may be wrong.
const FALSE_SHARE: f64 = 0.05;

/// One cell's paired log-ratios, positive where B is better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// B over A, one for each repetition.
    pub effects: Vec<f64>,
    /// The copy over A, in the same repetitions; empty if no copy ran.
    pub controls: Vec<f64>,
}

/// What may be said of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellVerdict {
    /// B over A; `None` of a cell without pairs.
    pub effect: Option<LogRatio>,
    /// Its probability after the correction for the number of cells.
    pub adjusted_p: f64,
    /// What is said.
    pub word: Word,
}

/// What may be said of the map.
#[derive(Clone, Debug, PartialEq)]
pub struct MapVerdict {
    /// In the order of the cells.
    pub cells: Vec<CellVerdict>,
    /// The geometric mean of all cells.
    pub headline: Option<LogRatio>,
    /// The geometric mean of the control.
    pub control: Option<LogRatio>,
    /// What one cell of A against A reaches in 95 of 100; 0 without a copy.
    pub cell_band: f64,
    /// Cells that got better, and that got worse.
    pub changed: [usize; 2],
    /// The word for the whole.
    pub word: Word,
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
            word: cell_word(effect.as_ref(), adjusted_p, band, rules),
            effect,
            adjusted_p,
        })
        .collect();
    let effects: Vec<Vec<f64>> = cells.iter().map(|cell| cell.effects.clone()).collect();
    let controls: Vec<Vec<f64>> = cells.iter().map(|cell| cell.controls.clone()).collect();
    let headline = geometric_over_cells(&effects);
    let control = geometric_over_cells(&controls);
    let count = |word: Word| verdicts.iter().filter(|cell| cell.word == word).count();
    MapVerdict {
        changed: [count(Word::Better), count(Word::Worse)],
        word: map_word(headline.as_ref(), control.as_ref(), rules),
        cells: verdicts,
        headline,
        control,
        cell_band: band,
    }
}

/// A cell without pairs must not make the others' bound stricter.
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

/// One pooled band for all cells: three repetitions of one cell know little.
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

fn cell_word(effect: Option<&LogRatio>, adjusted_p: f64, band: f64, rules: &Rules) -> Word {
    let Some(effect) = effect else {
        return Word::Refused(Refusal::NotMeasured);
    };
    let size = effect.middle.abs();
    if adjusted_p <= FALSE_SHARE && size > band && size >= rules.effect_min() {
        return if effect.middle > 0.0 {
            Word::Better
        } else {
            Word::Worse
        };
    }
    if effect.within(rules.effect_min()) {
        return Word::Same;
    }
    Word::Inconclusive {
        further: further_pairs(effect, rules.effect_min()),
    }
}

fn map_word(headline: Option<&LogRatio>, control: Option<&LogRatio>, rules: &Rules) -> Word {
    let Some(headline) = headline else {
        return Word::Refused(Refusal::NotMeasured);
    };
    let minimum = rules.effect_min();
    if let Some(control) = control
        && control.excludes_equal()
        && control.middle.abs() >= minimum
    {
        let percent = percent(control.middle);
        return Word::Refused(Refusal::MachineCannotTell { percent });
    }
    let band = control.map_or(0.0, |control| (control.high - control.low) / 2.0);
    let size = headline.middle.abs();
    if headline.excludes_equal() && size > band && size >= minimum {
        return if headline.middle > 0.0 {
            Word::Better
        } else {
            Word::Worse
        };
    }
    if headline.within(minimum) {
        return Word::Same;
    }
    Word::Inconclusive {
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
        assert_eq!(verdict.cells[4].word, Word::Worse);
    }

    #[test]
    fn a_change_of_all_cells_is_the_headline() {
        let verdict = judge_map(&cells(|_| 0.1), &Rules::default());
        assert_eq!(verdict.word, Word::Better);
        assert!((percent(verdict.headline.unwrap().middle) - 10.5).abs() < 1.0);
    }

    #[test]
    fn equal_maps_are_the_same() {
        let verdict = judge_map(&cells(|_| 0.0), &Rules::default());
        assert_eq!((verdict.word, verdict.changed), (Word::Same, [0, 0]));
    }

    #[test]
    fn cells_that_did_not_run_say_so_and_change_nothing() {
        let mut cells = cells(|_| 0.1);
        cells[3] = Cell::default();
        let verdict = judge_map(&cells, &Rules::default());
        assert_eq!(verdict.cells[3].word, Word::Refused(Refusal::NotMeasured));
        assert_eq!(verdict.word, Word::Better);
        let empty = judge_map(&[], &Rules::default());
        assert_eq!(empty.word, Word::Refused(Refusal::NotMeasured));
    }
}
