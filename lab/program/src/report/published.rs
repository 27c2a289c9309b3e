//! Tables with published figures of a predecessor beside the figures of a record, for
//! orientation only: the machines differ, so no ratio is shown.

pub mod threads;
pub mod write_ahead_log;

use comfy_table::{CellAlignment, LineStyle, Table as Grid, TableStyle};
use serde::Serialize;

use crate::record::Record;

/// One table; its first column names the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Meaning of the numbers.
    pub title: String,
    pub header: Vec<String>,
    /// Rows of the header's length.
    pub rows: Vec<Vec<String>>,
}

/// The tables of a record, and a note on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// Tables in the order of the predecessor's page.
    pub tables: Vec<Table>,
    pub note: &'static str,
}

/// The tables for a record; `None` where no predecessor has published figures.
pub fn beside(record: &Record) -> Option<Beside> {
    let beside = match record.verb.as_str() {
        "seed 002" => threads::beside(record),
        "seed 003" => write_ahead_log::beside(record),
        _ => return None,
    };
    let has_rows = |table: &Table| !table.rows.is_empty();
    beside.tables.iter().any(has_rows).then_some(beside)
}

/// Style of tables on a terminal: a line below the header and one below the table.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

impl Beside {
    /// Title and text of each table for a terminal.
    pub fn grids(&self) -> Vec<(&str, String)> {
        let grid = |table: &Table| {
            let mut grid = Grid::new();
            grid.load_style(STYLE);
            grid.set_header(table.header.clone());
            grid.add_rows(table.rows.clone());
            for column in grid.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            grid.to_string()
        };
        let tables = self.tables.iter();
        tables.map(|it| (it.title.as_str(), grid(it))).collect()
    }
}

/// Names of all sides of a record, sorted.
fn sides(record: &Record) -> Vec<&str> {
    let mut sides: Vec<&str> = record.runs.iter().map(|run| run.arm.as_str()).collect();
    sides.sort_unstable();
    sides.dedup();
    sides
}

#[cfg(test)]
mod tests;
