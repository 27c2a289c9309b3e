//! What a predecessor has published, in tables beside what a record measured: to be
//! read together, not to be compared. The machines are others, so no ratio is shown.

pub mod threads;
pub mod write_ahead_log;

use std::fmt::Write as _;

use comfy_table::{CellAlignment, LineStyle, Table as Grid, TableStyle};
use serde::Serialize;

use super::markdown::{inline, table};
use crate::record::Record;

/// One table; its first column names the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What its numbers are.
    pub title: String,
    /// Of the columns.
    pub header: Vec<String>,
    /// As long as the header.
    pub rows: Vec<Vec<String>>,
}

/// The tables of a record, and what must be known of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// In the order of the predecessor's page.
    pub tables: Vec<Table>,
    /// Below them.
    pub note: &'static str,
}

/// Of a record whose predecessor has published figures.
pub fn beside(record: &Record) -> Option<Beside> {
    let beside = match record.verb.as_str() {
        "seed 002" => threads::beside(record),
        "seed 003" => write_ahead_log::beside(record),
        _ => return None,
    };
    let has_rows = |table: &Table| !table.rows.is_empty();
    beside.tables.iter().any(has_rows).then_some(beside)
}

/// A line below the header and one below everything.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

impl Beside {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            let mut grid = Grid::new();
            grid.load_style(STYLE);
            grid.set_header(table.header.clone());
            grid.add_rows(table.rows.clone());
            for column in grid.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let _ = writeln!(text, "\n{}\n{grid}", table.title);
        }
        let _ = writeln!(text, "{}", self.note);
        text
    }

    /// For a repository.
    pub fn markdown(&self) -> String {
        let mut text = String::from("## Beside what was published\n\n");
        for it in &self.tables {
            let _ = writeln!(text, "{}:\n", inline(&it.title));
            text.push_str(&table(1, &it.header, &it.rows));
        }
        let _ = writeln!(text, "{}\n", inline(self.note));
        text
    }
}

/// All sides of a record, in the order of their names.
fn sides(record: &Record) -> Vec<&str> {
    let mut sides: Vec<&str> = record.runs.iter().map(|run| run.arm.as_str()).collect();
    sides.sort_unstable();
    sides.dedup();
    sides
}

/// The middle one, or the middle of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    (count > 0).then(|| f64::midpoint(values[(count - 1) / 2], values[count / 2]))
}

#[cfg(test)]
mod tests;
