//! Results of a record: one row for each cell and side, with medians of its runs. Terminal,
//! Markdown and page show the same rows.

use serde::Serialize;

use super::quantity::{QUANTITIES, Quantity, THROUGHPUT};
use super::sides::{Side, label_parts, sides};
use crate::record::{Cell, Judged, Outcome, Record, Run};

/// The dash of a range, with a zero-width space that permits a line break behind it.
const RANGE_DASH: &str = "–\u{200b}";

/// The table of results.
#[derive(Serialize)]
pub struct Results {
    /// The columns for which some row has a value.
    pub columns: Vec<&'static Quantity>,
    pub rows: Vec<Row>,
}

/// One side in one cell.
#[derive(Serialize)]
pub struct Row {
    pub cell: String,
    /// Label of the side.
    pub side: String,
    /// First part of the label: see [`label_parts`].
    pub name: String,
    /// Second part of the label.
    pub explanation: String,
    /// Style class of the side's colour.
    pub class: String,
    /// The side is the null target, the generator's own ceiling.
    pub is_ceiling: bool,
    /// Number of runs that count.
    pub runs: usize,
    /// Number of runs that were disturbed and repeated.
    pub replaced: usize,
    /// Texts of median and range, in the order of the columns.
    pub values: Vec<(String, String)>,
    /// Throughput as a share of the cell's fastest side; `None` for the ceiling.
    pub share: Option<f64>,
    /// Judgement of durability, in words.
    pub durable: String,
    /// Reason of the first run without numbers, if there is one.
    pub failure: Option<String>,
}

impl Results {
    pub fn of(record: &Record) -> Results {
        let cells = record.cells().into_iter();
        let cells: Vec<_> = cells.map(|cell| (cell, sides(record, cell))).collect();
        let known = |quantity: &&Quantity| {
            let mut sides = cells.iter().flat_map(|(_, sides)| sides);
            sides.any(|side| quantity.over(&side.runs).is_some())
        };
        let columns: Vec<&Quantity> = QUANTITIES.iter().filter(known).collect();
        let mut rows = Vec::new();
        for (cell, sides) in &cells {
            let rate = |side: &Side| THROUGHPUT.over(&side.runs).map(|spread| spread.median);
            let rivals = sides.iter().filter(|side| !side.is_ceiling());
            let fastest = rivals.filter_map(rate).fold(0.0, f64::max);
            rows.extend(sides.iter().map(|side| {
                let share = rate(side).filter(|_| fastest > 0.0 && !side.is_ceiling());
                Row {
                    share: share.map(|rate| rate / fastest),
                    ..row(record, cell, side, &columns)
                }
            }));
        }
        Results { columns, rows }
    }
}

fn row(record: &Record, cell: &Cell, side: &Side, columns: &[&Quantity]) -> Row {
    let here = |run: &&Run| run.cell.name == cell.name && run.arm == side.arm;
    let all = || record.runs.iter().filter(here);
    let (name, explanation) = label_parts(record, side.arm);
    let values = columns.iter().map(|column| {
        let spread = column.over(&side.runs);
        let text = column.text(spread.as_ref());
        let range = range_below(&column.range(spread.as_ref()), &text);
        (text, range)
    });
    Row {
        cell: cell.name.clone(),
        side: side.label.clone(),
        name,
        explanation,
        class: side.class.clone(),
        is_ceiling: side.is_ceiling(),
        runs: side.runs.len(),
        replaced: all().filter(|run| run.replaced).count(),
        values: values.collect(),
        share: None,
        durable: match side.is_ceiling() {
            true => "–".to_owned(),
            false => durable(&side.runs),
        },
        failure: all().find_map(|run| failure(&run.outcome)),
    }
}

/// A range for the line below its median, without the unit where it equals the median's.
fn range_below(range: &str, median: &str) -> String {
    let words: Vec<&str> = range.split(' ').collect();
    let text = match (words.as_slice(), median.rsplit_once(' ')) {
        ([least, "to", most, unit], Some((_, of_median))) if *unit == of_median => {
            format!("{least}{RANGE_DASH}{most}")
        }
        _ => range.replace(" to ", RANGE_DASH),
    };
    text.replace(' ', "\u{a0}")
}

/// The reason why a run has no numbers; `None` for a measured run.
pub fn failure(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Measured => None,
        Outcome::Failed { because } => Some(format!("failed: {because}")),
        Outcome::Lost { because } => Some(format!("LOST DATA: {because}")),
        Outcome::Interrupted => Some("interrupted".to_owned()),
    }
}

/// The judgements of durability of all runs; several where they disagree.
pub fn durable(runs: &[&Run]) -> String {
    let word = |run: &&Run| match run.durability.judged {
        Judged::Durable => "yes",
        Judged::NotDurable => "NOT DURABLE",
        Judged::NotAsked => "not asked",
        Judged::Unknown => "cannot tell",
    };
    let mut words: Vec<&str> = runs.iter().map(word).collect();
    words.sort_unstable();
    words.dedup();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_unit_only_where_it_differs_from_that_of_the_median() {
        let below = |range, median| range_below(range, median).replace(RANGE_DASH, "–");
        assert_eq!(below("1.17 to 1.31 ms", "1.27 ms"), "1.17–1.31");
        assert_eq!(below("0.9 to 1.31 ms", "980 µs"), "0.9–1.31\u{a0}ms");
        assert_eq!(
            below("825 µs to 1.68 ms", "1.1 ms"),
            "825\u{a0}µs–1.68\u{a0}ms"
        );
        assert_eq!(below("0.037 to 0.046", "≤ 0.038"), "0.037–0.046");
        assert_eq!(below("", "1 ms"), "");
    }
}
