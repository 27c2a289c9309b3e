//! A record for a terminal: the table of results, then the verdicts in words.

use std::fmt::Write as _;

use super::noise::noise;
use super::number::counted;
use super::published::beside;
use super::quantity::Quantity;
use super::results::{Results, Row};
use super::verdicts::{Line, map_cells, map_verdicts, verdicts};
use crate::record::Record;
use crate::verdict::evidence::taints_of;

/// Width of the longest bar, in characters.
const BAR_LETTERS: f64 = 8.0;

/// Width of a line in characters, where the variable `COLUMNS` is not set.
const LINE_LETTERS: usize = 120;
const GAP: &str = "  ";

/// Columns that a narrow terminal leaves out, the least important first. The page, the
/// Markdown and the CSV have all columns.
const OPTIONAL_COLUMNS: [&str; 11] = [
    "least-most",
    "disk",
    "memory",
    "p99.9",
    "generator",
    "device-bytes",
    "p50",
    "fairness",
    "client-cpu",
    "flushes",
    "server-cpu",
];

/// The whole text, in lines of 120 characters.
pub fn render(record: &Record) -> String {
    render_within(record, LINE_LETTERS)
}

/// The whole text; the table leaves out optional columns that do not fit into
/// `letters_max` characters.
pub fn render_within(record: &Record, letters_max: usize) -> String {
    let mut text = table(&Results::of(record), letters_max);
    for row in Results::of(record).rows {
        if let Some(failure) = row.failure {
            let _ = writeln!(text, "{}, {}: {failure}", row.cell, row.side);
        }
    }
    if let Some(map) = map_verdicts(record) {
        let _ = writeln!(text, "\n{}", map.sentence);
    }
    // The cells of a map are in the page; on a terminal they would be hundreds of lines.
    let cells = match map_cells(record).is_empty() {
        true => verdicts(record),
        false => Vec::new(),
    };
    for cell in cells {
        let _ = writeln!(text, "\n{}: B against A", cell.cell);
        for line in &cell.lines {
            text.push_str(&verdict_line(line));
        }
        for remark in &cell.remarks {
            let _ = writeln!(text, "  {remark}");
        }
    }
    text.push_str(&beside(record).map_or(String::new(), |it| it.text()));
    text.push_str(&noise_lines(record));
    text.push_str(&disturbed(record));
    text
}

/// Width of the terminal in characters: the variable `COLUMNS`, or 120.
pub fn line_letters() -> usize {
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|letters| letters.parse().ok());
    asked.unwrap_or(LINE_LETTERS)
}

/// A row of the table; a heading has one text only.
type Texts = Vec<String>;

/// A block of rows for each cell, below its name.
fn table(results: &Results, letters_max: usize) -> String {
    let (columns, left_out) = fitting(results, letters_max);
    let mut rows: Vec<Texts> = vec![header(&columns)];
    let mut cell = "";
    for row in &results.rows {
        if std::mem::replace(&mut cell, &row.cell) != row.cell {
            rows.push(vec![row.cell.clone()]);
        }
        rows.push(texts(results, &columns, row));
    }
    let widths = widths(&rows);
    let rule = "─".repeat(widths.iter().sum::<usize>() + GAP.len() * widths.len());
    let mut lines: Vec<String> = rows.iter().map(|texts| line(texts, &widths)).collect();
    lines.insert(1, rule.clone());
    lines.push(rule);
    let mut text = lines.join("\n") + "\n";
    for (name, what) in explained(results) {
        let _ = writeln!(text, "{name}: {what}");
    }
    if !left_out.is_empty() {
        let _ = writeln!(text, "also in the page: {}", left_out.join(", "));
    }
    text
}

/// The columns that fit into a line, and the heads of the others.
fn fitting(results: &Results, letters_max: usize) -> (Vec<&'static Quantity>, Vec<&'static str>) {
    let mut columns = results.columns.clone();
    let mut left_out = Vec::new();
    for key in OPTIONAL_COLUMNS {
        let mut rows = vec![header(&columns)];
        rows.extend(results.rows.iter().map(|row| texts(results, &columns, row)));
        let letters: usize = widths(&rows).iter().map(|width| GAP.len() + width).sum();
        if letters <= letters_max {
            break;
        }
        if let Some(at) = columns.iter().position(|column| column.key == key) {
            left_out.push(columns.remove(at).head);
        }
    }
    (columns, left_out)
}

fn header(columns: &[&Quantity]) -> Texts {
    let mut texts: Texts = ["side", "runs", ""].map(str::to_owned).into();
    texts.extend(columns.iter().map(|column| column.short.to_owned()));
    texts.push("durable".to_owned());
    texts
}

fn widths(rows: &[Texts]) -> Vec<usize> {
    let mut widths = Vec::new();
    for texts in rows.iter().filter(|texts| texts.len() > 1) {
        widths.resize(texts.len().max(widths.len()), 0);
        for (width, text) in widths.iter_mut().zip(texts) {
            *width = text.chars().count().max(*width);
        }
    }
    widths
}

fn line(texts: &Texts, widths: &[usize]) -> String {
    if let [heading] = texts.as_slice() {
        return heading.clone();
    }
    let padded = texts.iter().zip(widths).enumerate();
    let padded = padded.map(|(at, (text, width))| match at {
        0 | 2 => format!("{GAP}{text:width$}"),
        _ => format!("{GAP}{text:>width$}"),
    });
    padded.collect::<String>().trim_end().to_owned()
}

/// The side's own name, where its label is a name and an explanation; else the label.
fn short_side(row: &Row) -> &str {
    let named = format!("{}: ", row.side_parts.0);
    match row.side.starts_with(&named) {
        true => &row.side_parts.0,
        false => &row.side,
    }
}

/// Short names with their explanations.
fn explained(results: &Results) -> Vec<(&str, &str)> {
    let mut known: Vec<(&str, &str)> = Vec::new();
    for row in &results.rows {
        let entry = (short_side(row), row.side_parts.1.as_str());
        if entry.0 != row.side && !known.contains(&entry) {
            known.push(entry);
        }
    }
    known
}

fn texts(results: &Results, columns: &[&Quantity], row: &Row) -> Texts {
    let bar = bar(row.share.unwrap_or(0.0));
    let mut texts = vec![short_side(row).to_owned(), row.runs.to_string(), bar];
    let values = results.columns.iter().zip(&row.values);
    let shown = values.filter(|(column, _)| columns.iter().any(|it| it.key == column.key));
    texts.extend(shown.map(|(column, value)| column.text(value.as_ref())));
    texts.push(row.durable.clone());
    texts
}

/// A bar for a share of the greatest throughput, with a resolution of an eighth of a
/// character.
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
                "\n{cell}: A' against A, {}; no comparison of as many can be finer",
                counted(line.pairs as u64, "pair")
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

/// A line about runs that were disturbed but count.
fn disturbed(record: &Record) -> String {
    let mut disturbed = record.valid_runs().filter(|run| !run.taints.is_empty());
    let Some(first) = disturbed.next() else {
        return String::new();
    };
    let count = 1 + disturbed.count();
    format!(
        "\n{count} of {} {}, as in run {}: {}.\n",
        counted(record.valid_runs().count() as u64, "run"),
        match count {
            1 => "was disturbed and counts",
            _ => "were disturbed and count",
        },
        first.number,
        taints_of(first).join(", ")
    )
}
