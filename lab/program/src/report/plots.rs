//! Pictures of a record.
//!
//! ```text
//!   latency     percentiles of the response times, sides beside each other
//!   over_time   operations per second, run by run
//!   curves      over the number of clients: total and individual throughput, p99
//!   maps        reads over writes: throughput of each side, and the difference
//!   search      rates that a search tried
//! ```

mod curves;
mod latency;
mod maps;
mod over_time;
mod search;

pub use curves::curves;
pub use latency::latency;
pub use maps::{Facet, facets};
pub use over_time::over_time;
pub use search::search;

use serde::Serialize;

use super::sides::{Side, sides};
use super::svg::axis::Axis;
use super::svg::line_chart::{Point, Series};
use super::svg::scale::Spacing;
use crate::record::{Cell, Record, Run};

/// A picture with its title, note and legend.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    pub title: String,
    /// Explanation below the title; may be empty.
    pub note: String,
    pub svg: String,
    /// Style class and name of each line; empty for maps.
    pub legend: Vec<(String, String)>,
}

/// Greatest ratio of values on a linear axis. Beyond it the axis is logarithmic, because
/// small values would be indistinguishable from zero.
const EVEN_SPREAD_MAX: f64 = 12.0;

/// The sides of a cell that are drawn: the generator's ceiling only where it is the only one.
fn rivals<'a>(record: &'a Record, cell: &Cell) -> Vec<Side<'a>> {
    let mut sides = sides(record, cell);
    if sides.iter().any(|side| !side.is_ceiling()) {
        sides.retain(|side| !side.is_ceiling());
    }
    sides
}

fn legend(sides: &[Side]) -> Vec<(String, String)> {
    let entry = |side: &Side| (side.class.clone(), side.label.clone());
    sides.iter().map(entry).collect()
}

/// A line for each run that has points.
fn each_run(sides: &[Side], points: fn(&Run) -> Vec<Point>) -> Vec<Series> {
    let lines = sides.iter().flat_map(|side| {
        side.runs.iter().map(|run| Series {
            name: format!("{}, run {}", side.label, run.number),
            class: side.class.clone(),
            thin: side.runs.len() > 1,
            points: points(run),
        })
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// An axis, linear or logarithmic as suits the values.
fn axis(label: &str, write: fn(f64) -> String, values: &[f64]) -> Axis {
    let positive = || values.iter().copied().filter(|value| *value > 0.0);
    let most = positive().fold(0.0, f64::max);
    let least = positive().fold(f64::INFINITY, f64::min);
    let is_wide = most / least > EVEN_SPREAD_MAX;
    Axis {
        label: label.to_owned(),
        spacing: if is_wide {
            Spacing::Ratio
        } else {
            Spacing::Even
        },
        write,
        ticks: Vec::new(),
        from_zero: !is_wide,
    }
}
