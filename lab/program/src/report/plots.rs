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

use super::sides::{Side, sides};
use super::svg::line_chart::{Point, Series};
use crate::record::{Cell, Record, Run};

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
