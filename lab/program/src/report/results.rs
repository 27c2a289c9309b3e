//! Results of a record: one row for each cell and side, with medians of its runs. Terminal,
//! Markdown and page show the same rows.

use super::quantity::{QUANTITIES, Quantity, Spread, THROUGHPUT};
use super::sides::{Side, label_parts, sides};
use crate::record::{Judged, Outcome, Record, Run};

/// The table of results.
#[derive(Clone, Debug)]
pub struct Results {
    /// The columns for which some row has a value.
    pub columns: Vec<&'static Quantity>,
    pub rows: Vec<Row>,
}

impl std::fmt::Debug for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key)
    }
}

/// One side in one cell.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: String,
    /// Label of the side.
    pub side: String,
    /// The label in two parts: see [`label_parts`].
    pub side_parts: (String, String),
    /// Style class of the side's colour.
    pub class: String,
    /// The side is the null target, the generator's own ceiling.
    pub is_ceiling: bool,
    /// Number of runs that count.
    pub runs: usize,
    /// Number of runs that were disturbed and repeated.
    pub replaced: usize,
    /// Values in the order of the columns.
    pub values: Vec<Option<Spread>>,
    /// Throughput as a share of the cell's fastest side; `None` for the ceiling.
    pub share: Option<f64>,
    /// Judgement of durability, in words.
    pub durable: String,
    /// Reason of the first run without numbers, if there is one.
    pub failure: Option<String>,
}

impl Results {
    pub fn of(record: &Record) -> Results {
        let mut rows: Vec<Row> = Vec::new();
        for cell in record.cells() {
            let sides = sides(record, cell);
            let rate = |side: &Side| THROUGHPUT.over(&side.runs).map(|spread| spread.median);
            let rivals = sides.iter().filter(|side| !side.is_ceiling());
            let fastest = rivals.filter_map(rate).fold(0.0, f64::max);
            rows.extend(sides.iter().map(|side| {
                let share = rate(side).filter(|_| fastest > 0.0 && !side.is_ceiling());
                Row {
                    share: share.map(|rate| rate / fastest),
                    ..row(record, &cell.name, side)
                }
            }));
        }
        let known = |at: &usize| rows.iter().any(|row| row.values[*at].is_some());
        let kept: Vec<usize> = (0..QUANTITIES.len()).filter(known).collect();
        for row in &mut rows {
            row.values = kept.iter().map(|at| row.values[*at]).collect();
        }
        Results {
            columns: kept.into_iter().map(|at| &QUANTITIES[at]).collect(),
            rows,
        }
    }
}

fn row(record: &Record, cell: &str, side: &Side) -> Row {
    let here = |run: &&Run| run.cell.name == cell && run.arm == side.arm;
    let all = || record.runs.iter().filter(here);
    Row {
        cell: cell.to_owned(),
        side: side.label.clone(),
        side_parts: label_parts(record, side.arm),
        class: side.class.clone(),
        is_ceiling: side.is_ceiling(),
        runs: side.runs.len(),
        replaced: all().filter(|run| run.replaced).count(),
        values: QUANTITIES.iter().map(|it| it.over(&side.runs)).collect(),
        share: None,
        durable: match side.is_ceiling() {
            true => "–".to_owned(),
            false => durable(&side.runs),
        },
        failure: all().find_map(|run| failure(&run.outcome)),
    }
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
