//! Pictures of a record.
//!
//! ```text
//!   latency     percentiles of the response times, sides beside each other
//!   over_time   operations per second, run by run
//!   slowest     99.9th percentile of the response times over time, run by run
//!   space       bytes on disk for each live byte over time, run by run
//!   curves      over the number of clients: total and individual throughput, p99
//!   maps        reads over writes: throughput of each side, and the difference
//!   search      rates that a search tried
//! ```

mod curves;
mod each_run;
mod latency;
mod maps;

pub use curves::curves;
pub use each_run::{over_time, search, slowest, space};
pub use latency::latency;
pub use maps::{Facet, facets};

use super::sides::{Side, sides};
use crate::record::{Cell, Record};

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
