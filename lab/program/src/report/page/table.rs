//! The table of results in a page: a row for each side in each cell.

use serde::Serialize;

use crate::record::Record;
use crate::report::results::{Results, Row};

/// The dash of a range, with a zero-width space that permits a line break behind it.
const RANGE_DASH: &str = "–\u{200b}";

/// The table of all cells and sides.
#[derive(Serialize)]
pub struct ResultsView {
    columns: Vec<(&'static str, &'static str)>,
    rows: Vec<RowView>,
}

#[derive(Serialize)]
struct RowView {
    cell: String,
    is_first: bool,
    side: (String, String),
    class: String,
    is_ceiling: bool,
    runs: usize,
    replaced: usize,
    /// For each column: text, range, and the width of a bar in percent.
    values: Vec<(String, String, Option<f64>)>,
    durable: String,
    alarming: bool,
    failure: Option<String>,
}

impl ResultsView {
    pub fn of(record: &Record) -> ResultsView {
        let results = Results::of(record);
        let mut rows: Vec<RowView> = Vec::new();
        for row in &results.rows {
            let is_first = rows.last().is_none_or(|last| last.cell != row.cell);
            rows.push(row_view(&results, row, is_first));
        }
        let columns = results.columns.iter();
        ResultsView {
            columns: columns.map(|it| (it.head, it.meaning)).collect(),
            rows,
        }
    }
}

fn row_view(results: &Results, row: &Row, is_first: bool) -> RowView {
    let values = results.columns.iter().zip(&row.values);
    RowView {
        cell: row.cell.clone(),
        is_first,
        side: row.side_parts.clone(),
        class: row.class.clone(),
        is_ceiling: row.is_ceiling,
        runs: row.runs,
        replaced: row.replaced,
        values: values
            .map(|(column, value)| {
                let value = value.as_ref();
                let text = column.text(value);
                let bar = row.share.filter(|_| column.key == "throughput");
                let width = bar.map(|share| (share * 1000.0).round() / 10.0);
                let range = range_below(&column.range(value), &text);
                (text, range, width)
            })
            .collect(),
        alarming: row.durable.contains("NOT"),
        durable: row.durable.clone(),
        failure: row.failure.clone(),
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
