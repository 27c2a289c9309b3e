//! What may be said of two things that were measured.
//!
//! A comparison measures three arms in adjacent runs: A, a copy of A, and B. The
//! copy is the lab's own control: what A and its copy differ by, in the same
//! minutes, is what this machine makes out of nothing.
//!
//! ```text
//!   faster, slower   the interval leaves out "equal", and the effect lies outside
//!                    the A/A band, and it is at least the minimum effect
//!   same             the interval lies within the minimum effect
//!   inconclusive     neither, and how many further pairs would settle it
//!   refused          no number could mean anything: the copy differs from A, the
//!                    generator was the limit, data was lost, nothing was measured
//! ```
//!
//! Percentiles are compared run by run; they are never averaged.

pub mod comparison;
pub mod durability;
pub mod evidence;
pub mod exit;
pub mod heatmap;
pub mod judge;
pub mod measures;
pub mod metric;
pub mod unpaired;
pub mod word;

pub use comparison::{ArmReport, Comparison, Judgement};
pub use durability::durability;
pub use exit::{Exit, FailOn};
pub use heatmap::{Cell, CellVerdict, MapVerdict, judge_map};
pub use judge::{Rules, Verdict, judge};
pub use metric::{Better, Metric};
pub use unpaired::{Unpaired, compare_unpaired};
pub use word::{Refusal, Word};

/// The arms of a comparison, as numbers: A, its copy, B.
pub mod arm {
    /// What is compared with.
    pub const FIRST: usize = 0;
    /// The same again.
    pub const COPY: usize = 1;
    /// What is compared.
    pub const SECOND: usize = 2;
    /// How many there are.
    pub const COUNT: usize = 3;
}

/// One number of one run, and where the run stood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Which triple of adjacent runs.
    pub group: usize,
    /// Its place in the triple's order, from 0.
    pub position: usize,
    /// One of [`arm`].
    pub arm: usize,
    /// In the metric's unit.
    pub value: f64,
}
