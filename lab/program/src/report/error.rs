//! Errors of reports.

use std::path::PathBuf;

use super::quantity::QUANTITIES;
use crate::record::Unreadable;

/// Error for a report that cannot be made; the text names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the report's template: {0:#}")]
    Template(#[from] minijinja::Error),
    #[error(transparent)]
    Workload(#[from] toml::ser::Error),
    #[error(transparent)]
    Csv(#[from] csv::Error),
    #[error(transparent)]
    Record(#[from] Unreadable),
    #[error("{}: {error}", path.display())]
    File {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("there is no column `{key}`: write one of {}", QUANTITIES.map(|it| it.key).join(", "))]
    NoColumn { key: String },
    /// A marker of a page is wrong, a record and etcd's CSV cannot be turned into each other,
    /// or two records have nothing in common.
    #[error("{0}")]
    Impossible(String),
}
