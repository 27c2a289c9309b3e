//! The effect of a run's position in the order.
//!
//! On some machines the first run after a pause is faster, or a run finds a directory that
//! the run before has filled. Such an effect once showed a difference of 30 % between two
//! equal builds, because one of them always ran second. Each group of adjacent runs (a
//! triple) is modelled as
//!
//! ```text
//!     log value = group + arm + position + noise
//! ```
//!
//! Centring removes the groups, least squares fit arms and positions, and an F test decides
//! whether positions matter. If they do, the effect is reported and subtracted before arms
//! are compared.

use super::student::fisher_above;

/// Greatest probability at which positions are called different. It is small because a
/// correction that is itself noise would disturb the verdict.
const SIGNIFICANCE: f64 = 0.01;

/// One run in its group.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Number of the group of adjacent runs.
    pub group: usize,
    /// Position in the group's order, from 0.
    pub position: usize,
    /// Index of the arm, from 0.
    pub arm: usize,
    /// Natural logarithm of the measured value.
    pub log: f64,
}

/// Effect of the position in the order.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionEffect {
    /// Logarithm of each position's factor; they sum to 0.
    pub logs: Vec<f64>,
    /// Probability of such factors if positions made no difference.
    pub p: f64,
}

impl PositionEffect {
    /// Whether the effect is significant at 1 %.
    pub fn significant(&self) -> bool {
        self.p < SIGNIFICANCE
    }

    /// The positions of the largest and the smallest value.
    pub fn extremes(&self) -> (usize, usize) {
        let by_log = |a: &usize, b: &usize| self.logs[*a].total_cmp(&self.logs[*b]);
        let most = (0..self.logs.len()).max_by(by_log);
        let least = (0..self.logs.len()).min_by(by_log);
        (most.unwrap_or(0), least.unwrap_or(0))
    }

    /// Logarithm of the largest position's value over the smallest's.
    pub fn span(&self) -> f64 {
        let (most, least) = self.extremes();
        self.logs[most] - self.logs[least]
    }
}

/// Fits arms and positions. `None` where their effects cannot be separated: one position,
/// too few groups, or an arm that always ran at the same position.
pub fn position_effect(runs: &[Placed]) -> Option<PositionEffect> {
    let positions = 1 + runs.iter().map(|run| run.position).max()?;
    let arms = 1 + runs.iter().map(|run| run.arm).max()?;
    let groups = 1 + runs.iter().map(|run| run.group).max()?;
    let unknowns = (arms - 1) + (positions - 1);
    let freedom = runs.len().checked_sub(groups + unknowns)?;
    if positions < 2 || freedom < 2 {
        return None;
    }
    let rows = centred(runs, groups, arms, positions);
    let (full, solution) = residual(&rows, unknowns)?;
    let (without, _) = residual(&rows, arms - 1)?;
    let (between, within) = ((positions - 1) as f64, freedom as f64);
    let p = match full <= f64::EPSILON * without {
        true if without == 0.0 => 1.0,
        true => 0.0,
        false => {
            let f = (without - full) / between / (full / within);
            fisher_above(f, between, within)
        }
    };
    Some(PositionEffect {
        logs: around_zero(&solution[arms - 1..]),
        p,
    })
}

/// Rows of the linear model: columns for arms, then for positions (each without the first),
/// then the value. All columns are centred within the group, which removes the group.
fn centred(runs: &[Placed], groups: usize, arms: usize, positions: usize) -> Vec<Vec<f64>> {
    let row = |run: &Placed| -> Vec<f64> {
        let of_arm = (1..arms).map(|arm| arm == run.arm);
        let of_position = (1..positions).map(|position| position == run.position);
        let columns = of_arm.chain(of_position).map(|it| f64::from(u8::from(it)));
        columns.chain([run.log]).collect()
    };
    let mut rows = Vec::with_capacity(runs.len());
    for group in 0..groups {
        let members = runs.iter().filter(|run| run.group == group);
        let members: Vec<Vec<f64>> = members.map(row).collect();
        let mean = |at: usize| {
            let sum: f64 = members.iter().map(|row| row[at]).sum();
            sum / members.len() as f64
        };
        let centre = |row: &Vec<f64>| -> Vec<f64> {
            let columns = row.iter().enumerate();
            columns.map(|(at, value)| value - mean(at)).collect()
        };
        rows.extend(members.iter().map(centre));
    }
    rows
}

/// The residual sum of squares of a fit with the first `unknowns` columns, and their
/// coefficients.
fn residual(rows: &[Vec<f64>], unknowns: usize) -> Option<(f64, Vec<f64>)> {
    let value = rows.first()?.len() - 1;
    let product = |left: usize, right: usize| rows.iter().map(|row| row[left] * row[right]).sum();
    let line = |left: usize| {
        let columns = (0..unknowns).chain([value]);
        columns.map(|right| product(left, right)).collect()
    };
    let solution = solve((0..unknowns).map(line).collect())?;
    let rest = rows
        .iter()
        .map(|row| {
            let fitted: f64 = solution.iter().zip(row).map(|(c, x)| c * x).sum();
            (row[value] - fitted).powi(2)
        })
        .sum();
    Some((rest, solution))
}

/// Gaussian elimination with pivots; `None` where the equations are singular.
fn solve(mut lines: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let unknowns = lines.len();
    for column in 0..unknowns {
        let pivot = (column..unknowns)
            .max_by(|a, b| lines[*a][column].abs().total_cmp(&lines[*b][column].abs()))?;
        lines.swap(column, pivot);
        if lines[column][column].abs() < 1e-9 {
            return None;
        }
        let top = lines[column].clone();
        for (_, line) in lines.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = line[column] / top[column];
            for (cell, above) in line.iter_mut().zip(&top) {
                *cell -= factor * above;
            }
        }
    }
    let solved = lines.iter().enumerate();
    Some(solved.map(|(at, line)| line[unknowns] / line[at]).collect())
}

/// Converts differences to the first position into logarithms that sum to 0.
fn around_zero(beside_the_first: &[f64]) -> Vec<f64> {
    let mut logs = vec![0.0];
    logs.extend_from_slice(beside_the_first);
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    logs.iter().map(|log| log - mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [[usize; 3]; 6] = [
        [0, 1, 2],
        [2, 0, 1],
        [1, 2, 0],
        [2, 1, 0],
        [0, 2, 1],
        [1, 0, 2],
    ];

    fn runs(arm_logs: [f64; 3], position_logs: [f64; 3]) -> Vec<Placed> {
        let mut runs = Vec::new();
        for (group, order) in ORDERS.iter().enumerate() {
            for (position, arm) in order.iter().copied().enumerate() {
                let noise = ((group * 7 + position * 3 + arm * 5) % 11) as f64 / 1000.0;
                let log = group as f64 + arm_logs[arm] + position_logs[position] + noise;
                runs.push(Placed {
                    group,
                    position,
                    arm,
                    log,
                });
            }
        }
        runs
    }

    #[test]
    fn a_slow_second_position_is_found() {
        let found = position_effect(&runs([0.0; 3], [0.0, -0.35, -0.35])).unwrap();
        assert!(found.significant(), "{found:?}");
        assert_eq!(found.extremes().0, 0);
        assert!((found.span() - 0.35).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_difference_of_arms_is_no_effect_of_positions() {
        let found = position_effect(&runs([0.0, 0.0, 0.5], [0.0; 3])).unwrap();
        assert!(!found.significant(), "{found:?}");
    }

    #[test]
    fn arms_with_fixed_positions_give_no_result() {
        let fixed: Vec<Placed> = (0..12)
            .map(|run| Placed {
                group: run / 3,
                position: run % 3,
                arm: run % 3,
                log: (run * 5 % 7) as f64,
            })
            .collect();
        assert_eq!(position_effect(&fixed), None);
    }

    #[test]
    fn too_few_groups_give_no_result() {
        assert_eq!(position_effect(&runs([0.0; 3], [0.0; 3])[..6]), None);
        assert_eq!(position_effect(&[]), None);
    }
}
