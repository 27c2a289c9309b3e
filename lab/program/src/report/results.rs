//! Results of a record: one row for each cell and side, with medians of its runs. Terminal,
//! Markdown and page show the same rows.

use serde::Serialize;

use super::quantity::{QUANTITIES, Quantity, THROUGHPUT};
use super::sides::{Side, label_parts, sides};
use crate::record::{ARM_NULL, Cell, Judged, Outcome, Record, Run};
use crate::verdict::evidence::taints_of;

/// The dash of a range, with a zero-width space that permits a line break behind it.
const RANGE_DASH: &str = "–\u{200b}";

/// The columns of single runs: enough to see which run was another.
const RAW_KEYS: [&str; 6] = [
    "throughput",
    "p50",
    "p99",
    "client-cpu",
    "server-cpu",
    "memory",
];

/// The table of results.
#[derive(Serialize)]
pub struct Results {
    /// The columns for which some row has a value.
    pub columns: Vec<&'static Quantity>,
    /// Headings of the values of a [`RawRun`].
    pub raw_heads: Vec<&'static str>,
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
    /// Every run of the side in the cell, in the order of time.
    pub raw: Vec<RawRun>,
}

/// A run of a row.
#[derive(Serialize)]
pub struct RawRun {
    pub number: u32,
    /// Number of the repetition, from 1.
    pub pair: u32,
    /// Texts of the values, in the order of the headings.
    pub values: Vec<String>,
    /// Throughput as a share of the greatest of all runs of the cell; `None` without a number.
    pub place: Option<f64>,
    /// The run was disturbed and repeated.
    pub replaced: bool,
    /// Failure or disturbances of the run.
    pub remark: String,
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
        let raw_columns = columns.iter().filter(|it| RAW_KEYS.contains(&it.key));
        let raw_columns: Vec<&Quantity> = raw_columns.copied().collect();
        let mut rows = Vec::new();
        for (cell, sides) in &cells {
            let rate = |side: &Side| THROUGHPUT.over(&side.runs).map(|spread| spread.median);
            let rivals = sides.iter().filter(|side| !side.is_ceiling());
            let fastest = rivals.filter_map(rate).fold(0.0, f64::max);
            rows.extend(sides.iter().map(|side| {
                let share = rate(side).filter(|_| fastest > 0.0 && !side.is_ceiling());
                Row {
                    share: share.map(|rate| rate / fastest),
                    raw: raw_runs(record, cell, side, &raw_columns),
                    ..row(record, cell, side, &columns)
                }
            }));
        }
        Results {
            columns,
            raw_heads: raw_columns.iter().map(|column| column.head).collect(),
            rows,
        }
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
        raw: Vec::new(),
    }
}

fn raw_runs(record: &Record, cell: &Cell, side: &Side, columns: &[&Quantity]) -> Vec<RawRun> {
    let of_cell = record.runs.iter().filter(|run| run.cell.name == cell.name);
    let is_rival = |run: &&Run| (run.arm == ARM_NULL) == side.is_ceiling();
    let rates = of_cell.clone().filter(is_rival).filter_map(rate);
    let most = rates.fold(0.0, f64::max);
    let here = of_cell.filter(|run| run.arm == side.arm);
    let raw = here.map(|run| {
        let remarks = failure(&run.outcome).into_iter().chain(taints_of(run));
        RawRun {
            number: run.number,
            pair: run.pair + 1,
            values: columns
                .iter()
                .map(|column| raw_value(column, run))
                .collect(),
            place: rate(run).filter(|_| most > 0.0).map(|rate| rate / most),
            replaced: run.replaced,
            remark: remarks.collect::<Vec<_>>().join(", "),
        }
    });
    raw.collect()
}

fn rate(run: &Run) -> Option<f64> {
    let is_measured = run.outcome == Outcome::Measured;
    let rate = is_measured.then(|| run.operations_per_second());
    rate.filter(|rate| rate.is_finite())
}

fn raw_value(column: &Quantity, run: &Run) -> String {
    let is_measured = run.outcome == Outcome::Measured;
    let value = (column.of)(run).filter(|_| is_measured);
    value.map_or("–".to_owned(), column.show)
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
