//! Verdicts on two measured targets.
//!
//! A comparison measures three arms in adjacent runs: A, a copy of A, and B. The copy is the
//! lab's own control: the difference between A and its copy in the same minutes is the noise
//! of this machine.
//!
//! ```text
//!   faster, slower   the interval excludes "equal", and the effect lies outside the
//!                    A/A band, and it is at least the minimum effect
//!   same             the interval lies within the minimum effect
//!   inconclusive     neither; the verdict estimates how many further pairs would decide
//!   refused          the numbers are not valid: the copy differs from A, the generator
//!                    was the limit, data was lost, or nothing was measured
//! ```
//!
//! Percentiles are compared run by run; they are never averaged.

pub mod comparison;
pub mod conclusion;
pub mod durability;
pub mod evidence;
pub mod exit;
pub mod heatmap;
pub mod judge;
pub mod measures;
pub mod metric;
pub mod unpaired;

pub use comparison::{ArmReport, Comparison, Judgement};
pub use conclusion::{Conclusion, Refusal};
pub use durability::durability;
pub use exit::{Exit, FailOn};
pub use heatmap::{Cell, CellVerdict, MapVerdict, judge_map};
pub use judge::{Verdict, effect_min, judge};
pub use metric::{Better, Metric};
pub use unpaired::{Unpaired, compare_unpaired};

/// Indices of the arms of a comparison; between the two lies the copy of A.
pub mod arm {
    /// A.
    pub const FIRST: usize = 0;
    /// B.
    pub const SECOND: usize = 2;
    /// Number of arms.
    pub const COUNT: usize = 3;
}

/// One value of one run, with the run's position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of the triple of adjacent runs.
    pub group: usize,
    /// Position in the triple's order, from 0.
    pub position: usize,
    /// One of [`arm`].
    pub arm: usize,
    /// Value in the metric's unit.
    pub value: f64,
}
