//! Tables between markers in Markdown pages, written from records, so that the numbers in a
//! page are those that were measured.
//!
//! ```text
//!   <!-- lab: 2026-11-21-put throughput p99 -->     folder below the records, columns
//!   ...                                              written by `inkstone-lab readme`
//!   <!-- lab end -->
//! ```

use std::path::{Component, Path};

use minijinja::context;
use minijinja::value::Serde;

use super::provenance::Provenance;
use super::quantity::{self, Quantity, THROUGHPUT};
use super::sides::{Side, distinct, label, sides};
use super::verdicts::{CellVerdicts, map_verdicts, verdicts};
use super::{ReportError, template};
use crate::record::{ARM_A, ARM_B, ARM_NULL, Cell, Judged, Record};

const BEGIN: &str = "<!-- lab:";
const END: &str = "<!-- lab end -->";

/// Paths of a page and of the records.
#[derive(Clone, Copy, Debug)]
pub struct PagePaths<'a> {
    /// Folder that the other two are relative to; empty for the current folder.
    pub root: &'a Path,
    /// The page, relative to the root.
    pub page: &'a Path,
    /// The folder of the records, relative to the root.
    pub records: &'a Path,
}

/// The text of a page with all its tables written again. Fails where a marker is wrong or a
/// record cannot be read; the error names page and line.
pub fn rewrite(paths: PagePaths, text: &str) -> Result<String, ReportError> {
    if !text.contains(BEGIN) && !text.contains(END) {
        return Ok(text.to_owned());
    }
    let page = paths.page;
    let wrong = |at: usize, what: &dyn std::fmt::Display| {
        let place = format!("{}:{}", page.display(), at + 1);
        Err(ReportError::Impossible(format!("{place}: {what}")))
    };
    let mut written = String::with_capacity(text.len());
    let mut lines = text.lines().enumerate();
    let mut is_fenced = false;
    while let Some((at, line)) = lines.next() {
        written.push_str(line);
        written.push('\n');
        // Markers in code blocks are examples.
        is_fenced ^= line.trim_start().starts_with("```");
        if is_fenced {
            continue;
        }
        let Some(marker) = line.trim().strip_prefix(BEGIN) else {
            if line.trim() == END {
                return wrong(at, &format!("`{END}` without a beginning"));
            }
            continue;
        };
        let Some(marker) = marker.trim().strip_suffix("-->") else {
            return wrong(at, &"the marker does not end in `-->`");
        };
        match of_marker(paths, marker) {
            Ok(made) => written.push_str(&made),
            Err(what) => return wrong(at, &what),
        }
        let closed = lines.by_ref().find(|(_, line)| line.trim() == END);
        if closed.is_none() {
            return wrong(at, &format!("the marker has no `{END}` below it"));
        }
        written.push_str(END);
        written.push('\n');
    }
    Ok(written)
}

fn of_marker(paths: PagePaths, marker: &str) -> Result<String, ReportError> {
    let mut words = marker.split_whitespace();
    let marker = |what: String| ReportError::Impossible(what);
    let folder = words
        .next()
        .ok_or_else(|| marker("the marker names no record: write the name of its folder".into()))?;
    if Path::new(folder)
        .components()
        .any(|it| !matches!(it, Component::Normal(_)))
    {
        return Err(marker(format!("`{folder}` is no folder below the records")));
    }
    let columns: Vec<&Quantity> = words.map(quantity::with_key).collect::<Result<_, _>>()?;
    let columns = match columns.is_empty() {
        true => vec![THROUGHPUT],
        false => columns,
    };
    let records = paths.root.join(paths.records);
    let record = Record::load(&records.join(folder))?;
    let link = link(paths.page, &paths.records.join(folder).join("summary.md"));
    section(&record, &columns, &link)
}

/// A relative link from the page to a file of the record.
fn link(page: &Path, target: &Path) -> String {
    let up = page.parent().map_or(0, |folder| {
        let folders = folder.components();
        folders
            .filter(|it| matches!(it, Component::Normal(_)))
            .count()
    });
    let target: Vec<String> = target
        .components()
        .filter(|it| !matches!(it, Component::CurDir))
        .map(|it| it.as_os_str().to_string_lossy().into_owned())
        .collect();
    format!("{}{}", "../".repeat(up), target.join("/"))
}

/// The table and the provenance of its numbers.
pub fn section(record: &Record, columns: &[&Quantity], link: &str) -> Result<String, ReportError> {
    let verdicts = verdicts(record);
    let (header, rows) = match verdicts.is_empty() {
        true => beside(record, columns),
        false => compared(record, columns, &verdicts),
    };
    let variables = context! {
        header => Serde(header),
        rows => Serde(rows),
        link,
        map => Serde(map_verdicts(record)),
        incomplete => &record.incomplete_because,
        provenance => Serde(Provenance::of(record)),
        undurable => Serde(undurable(record)),
    };
    template::render("section.md", variables)
}

/// Header and rows of a table.
type Table = (Vec<String>, Vec<Vec<String>>);

/// One row for each cell and column, one column for each side.
fn beside(record: &Record, columns: &[&Quantity]) -> Table {
    let mut arms = super::sides::arms(record);
    arms.retain(|arm| *arm != ARM_NULL);
    let mut header = vec![String::new()];
    header.extend(arms.iter().map(|arm| label(record, arm)));
    (header, rows(record, columns, &arms))
}

/// One row for each cell and column: A, B, and the verdict.
fn compared(record: &Record, columns: &[&Quantity], verdicts: &[CellVerdicts]) -> Table {
    let name = |arm: &str| label(record, arm).split_off(arm.len()).trim().to_owned();
    let header = [
        String::new(),
        format!("A: {}", name(ARM_A)),
        format!("B: {}", name(ARM_B)),
        "B against A".to_owned(),
        "A/A band".to_owned(),
        "verdict".to_owned(),
    ];
    let mut rows = rows(record, columns, &[ARM_A, ARM_B]);
    let lines = verdicts.iter().flat_map(|cell| {
        let line = |column: &&Quantity| cell.lines.iter().find(|it| it.metric == column.metric);
        columns.iter().map(line)
    });
    for (row, line) in rows.iter_mut().zip(lines) {
        row.extend(match line {
            Some(line) => [&line.change, &line.band, &line.word].map(Clone::clone),
            None => [const { String::new() }; 3],
        });
    }
    (header.into(), rows)
}

/// The values of some sides, with a row for each cell and column.
fn rows(record: &Record, columns: &[&Quantity], arms: &[&str]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for cell in record.cells() {
        let sides = sides(record, cell);
        for column in columns {
            let mut row = vec![work(cell, column, columns)];
            row.extend(arms.iter().map(|arm| {
                let side = sides.iter().find(|side| side.arm == *arm);
                side.map_or("–".to_owned(), |side| value(column, side))
            }));
            rows.push(row);
        }
    }
    rows
}

fn work(cell: &Cell, column: &Quantity, columns: &[&Quantity]) -> String {
    match columns {
        [one] if one.key == column.key => format!("{}, {}", cell.name, column.head),
        _ => format!("{}: {}", cell.name, column.head),
    }
}

/// Median and range, such as `1,204 (1,180 to 1,231)`.
fn value(column: &Quantity, side: &Side) -> String {
    let spread = column.over(&side.runs);
    let text = column.text(spread.as_ref());
    match column.range(spread.as_ref()) {
        range if range.is_empty() => text,
        range => format!("{text} ({range})"),
    }
}

/// The targets that were not durable although the workload asks for durable writes.
fn undurable(record: &Record) -> Vec<String> {
    let broken = record
        .valid_runs()
        .filter(|run| run.durability.judged == Judged::NotDurable && run.arm != ARM_NULL);
    distinct(broken.map(|run| label(record, &run.arm)))
}
