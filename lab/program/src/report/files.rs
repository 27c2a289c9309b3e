//! The files beside a record: its contents as a page, as Markdown and for spreadsheets.

use std::path::Path;

use super::{ReportError, markdown, page, runs_csv};
use crate::record::{Record, replace};

/// The page, which needs no network and no scripts.
pub const PAGE: &str = "report.html";
/// Names of the files.
pub const NAMES: [&str; 3] = [PAGE, "summary.md", "runs.csv"];

/// Writes the page alone.
pub fn write_page(record: &Record, folder: &Path) -> Result<(), ReportError> {
    write_file(&folder.join(PAGE), &page::render(record)?)
}

/// Writes all files; each is replaced as a whole.
pub fn write(record: &Record, folder: &Path) -> Result<(), ReportError> {
    let csv = runs_csv::to_csv(record)?;
    let texts = [page::render(record)?, markdown::render(record)?, csv];
    for (name, text) in NAMES.into_iter().zip(texts) {
        write_file(&folder.join(name), &text)?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), ReportError> {
    let failed = |error| ReportError::File {
        path: path.to_owned(),
        error,
    };
    replace(path, text.as_bytes()).map_err(failed)
}
