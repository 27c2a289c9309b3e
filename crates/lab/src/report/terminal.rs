//! What a terminal shows at the end of a run: the table, then the verdicts in
//! words.

use std::fmt::Write as _;

use comfy_table::{Cell as TableCell, CellAlignment, LineStyle, Table, TableStyle};

use super::noise::noise;
use super::results::{Results, Row};
use super::verdicts::{Line, map_verdicts, verdicts};
use crate::record::Record;
use crate::verdict::evidence::taints_of;

/// Letters of the longest bar.
const BAR_LETTERS: f64 = 8.0;

/// A line below the header and one below everything.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// The whole text.
pub fn render(record: &Record) -> String {
    let mut text = format!("{}\n", table(&Results::of(record)));
    for row in Results::of(record).rows {
        if let Some(failure) = row.failure {
            let _ = writeln!(text, "{}, {}: {failure}", row.cell, row.side);
        }
    }
    if let Some(map) = map_verdicts(record) {
        let _ = writeln!(text, "\n{}", map.sentence);
    }
    for cell in verdicts(record) {
        let _ = writeln!(text, "\n{}: B against A", cell.cell);
        for line in &cell.lines {
            text.push_str(&verdict_line(line));
        }
        for remark in &cell.remarks {
            let _ = writeln!(text, "  {remark}");
        }
    }
    text.push_str(&noise_lines(record));
    text.push_str(&disturbed(record));
    text
}

fn table(results: &Results) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let mut header = vec!["cell", "side", "runs", ""];
    header.extend(results.columns.iter().map(|column| column.head));
    header.push("durable");
    table.set_header(header);
    let mut cell = "";
    for row in &results.rows {
        let is_first = std::mem::replace(&mut cell, &row.cell) != row.cell;
        let texts = texts(results, row, is_first).into_iter().enumerate();
        table.add_row(texts.map(|(at, text)| {
            TableCell::new(text).set_alignment(match at {
                0 | 1 | 3 => CellAlignment::Left,
                _ => CellAlignment::Right,
            })
        }));
    }
    table
}

fn texts(results: &Results, row: &Row, is_first: bool) -> Vec<String> {
    let cell = if is_first { row.cell.as_str() } else { "" };
    let mut texts = vec![
        cell.to_owned(),
        row.side.clone(),
        row.runs.to_string(),
        bar(row.share.unwrap_or(0.0)),
    ];
    let values = results.columns.iter().zip(&row.values);
    texts.extend(values.map(|(column, value)| column.text(value.as_ref())));
    texts.push(row.durable.clone());
    texts
}

/// Throughput as a share of the fastest, in eighths of a letter.
fn bar(share: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * BAR_LETTERS * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

fn verdict_line(line: &Line) -> String {
    let band = match line.band.as_str() {
        "" => String::new(),
        band => format!("A/A {band}"),
    };
    let words = format!(
        "{} {:27} {:13} {:24} {band:20} {}",
        if line.decides { " *" } else { "  " },
        line.metric,
        line.word,
        line.change,
        line.remark
    );
    format!("{}\n", words.trim_end())
}

fn noise_lines(record: &Record) -> String {
    let lines = noise(record);
    let mut text = String::new();
    let mut cell = "";
    for line in &lines {
        if cell != line.cell {
            cell = &line.cell;
            let _ = writeln!(
                text,
                "\n{cell}: A' against A, {} pairs; no comparison of as many can be finer",
                line.pairs
            );
        }
        let words = format!(
            "  {:27} {:24} band {:14} one pair {}",
            line.metric, line.change, line.band, line.deviation
        );
        let _ = writeln!(text, "{}", words.trim_end());
    }
    text
}

/// Runs that were disturbed and count all the same.
fn disturbed(record: &Record) -> String {
    let mut disturbed = record.valid_runs().filter(|run| !run.taints.is_empty());
    let Some(first) = disturbed.next() else {
        return String::new();
    };
    let count = 1 + disturbed.count();
    format!(
        "\n{count} of {} runs were disturbed and count, as in run {}: {}.\n",
        record.valid_runs().count(),
        first.number,
        taints_of(first).join(", ")
    )
}
