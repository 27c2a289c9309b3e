//! A record as a page of Markdown, for reading in a repository.

use super::{ReportError, template, words};
use crate::record::Record;

/// The whole page.
pub fn render(record: &Record) -> Result<String, ReportError> {
    template::render("summary.md", words::of(record))
}
