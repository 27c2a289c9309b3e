//! A record for a terminal: the table of results, then the verdicts in words.

use minijinja::context;
use minijinja::value::Serde;

use super::published::{Beside, beside};
use super::results::{Results, Row};
use super::sides::distinct;
use super::{ReportError, template, words};
use crate::record::Record;

/// Width of the longest bar, in characters.
const BAR_LETTERS: f64 = 8.0;

/// Width of a line in characters, where the variable `COLUMNS` is not set.
const LINE_LETTERS: usize = 120;
const GAP: &str = "  ";

/// Columns that a narrow terminal leaves out, the least important first. The page, the
/// Markdown and the CSV have all columns.
const OPTIONAL_COLUMNS: [&str; 15] = [
    "least-most",
    "disk",
    "memory",
    "key-memory-peak",
    "p99.9",
    "generator",
    "key-memory",
    "device-bytes-read",
    "space",
    "device-bytes",
    "p50",
    "fairness",
    "client-cpu",
    "flushes",
    "server-cpu",
];

/// The whole text, in lines of 120 characters.
pub fn render(record: &Record) -> Result<String, ReportError> {
    render_within(record, LINE_LETTERS)
}

/// The whole text; the table leaves out optional columns that do not fit into
/// `letters_max` characters.
pub fn render_within(record: &Record, letters_max: usize) -> Result<String, ReportError> {
    let results = Results::of(record);
    let (columns, left_out) = fitting(&results, letters_max);
    let published = beside(record);
    let variables = context! {
        table => table(&results, &columns),
        left_out => Serde(left_out),
        explained => Serde(explained(&results)),
        published => Serde(published.as_ref().map(Beside::grids)),
        ..words::of(record)
    };
    template::render("terminal.txt", variables)
}

/// Width of the terminal in characters: the variable `COLUMNS`, or 120.
pub fn line_letters() -> usize {
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|letters| letters.parse().ok());
    asked.unwrap_or(LINE_LETTERS)
}

/// A column of the table.
struct Column {
    /// Key of its quantity; empty for other columns.
    key: &'static str,
    /// Heading in the page.
    head: &'static str,
    /// The short heading, then a text for each row.
    texts: Vec<String>,
    /// Width in characters.
    width: usize,
}

impl Column {
    fn new<'a>(
        [key, head, short]: [&'static str; 3],
        rows: &'a [Row],
        text: impl Fn(&'a Row) -> String,
    ) -> Column {
        let mut texts = vec![short.to_owned()];
        texts.extend(rows.iter().map(text));
        let widths = texts.iter().map(|text| text.chars().count());
        Column {
            key,
            head,
            width: widths.max().unwrap_or(0),
            texts,
        }
    }
}

/// The columns that fit into a line, and the heads of the others.
fn fitting(results: &Results, letters_max: usize) -> (Vec<Column>, Vec<&'static str>) {
    let rows = &results.rows;
    let mut columns = vec![
        Column::new(["", "", "side"], rows, |row| short_side(row).to_owned()),
        Column::new(["", "", "runs"], rows, |row| row.runs.to_string()),
        Column::new(["", "", ""], rows, |row| bar(row.share.unwrap_or(0.0))),
    ];
    for (at, quantity) in results.columns.iter().enumerate() {
        let names = [quantity.key, quantity.head, quantity.short];
        columns.push(Column::new(names, rows, |row| row.values[at].0.clone()));
    }
    let durable = |row: &Row| row.durable.clone();
    columns.push(Column::new(["", "", "durable"], rows, durable));
    let mut left_out = Vec::new();
    for key in OPTIONAL_COLUMNS {
        if letters(&columns) <= letters_max {
            break;
        }
        if let Some(at) = columns.iter().position(|column| column.key == key) {
            left_out.push(columns.remove(at).head);
        }
    }
    (columns, left_out)
}

fn letters(columns: &[Column]) -> usize {
    columns.iter().map(|it| GAP.len() + it.width).sum()
}

/// A block of rows for each cell, below its name.
fn table(results: &Results, columns: &[Column]) -> String {
    let line = |at: usize| {
        let texts = columns.iter().enumerate().map(|(place, column)| {
            let (text, width) = (&column.texts[at], column.width);
            match place {
                0 | 2 => format!("{GAP}{text:width$}"),
                _ => format!("{GAP}{text:>width$}"),
            }
        });
        texts.collect::<String>().trim_end().to_owned()
    };
    let rule = "─".repeat(letters(columns));
    let mut lines = vec![line(0), rule.clone()];
    let mut cell = "";
    for (at, row) in results.rows.iter().enumerate() {
        if std::mem::replace(&mut cell, &row.cell) != row.cell {
            lines.push(row.cell.clone());
        }
        lines.push(line(at + 1));
    }
    lines.push(rule);
    lines.join("\n")
}

/// The side's own name, where its label is a name and an explanation; else the label.
fn short_side(row: &Row) -> &str {
    match row.side.starts_with(&format!("{}: ", row.name)) {
        true => &row.name,
        false => &row.side,
    }
}

/// Short names with their explanations.
fn explained(results: &Results) -> Vec<(&str, &str)> {
    let rows = results
        .rows
        .iter()
        .filter(|row| short_side(row) != row.side);
    distinct(rows.map(|row| (short_side(row), row.explanation.as_str())))
}

/// A bar for a share of the greatest throughput, with a resolution of an eighth of a
/// character.
fn bar(share: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * BAR_LETTERS * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}
