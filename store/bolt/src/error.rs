//! Errors: each names the file, and the page where there is one.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system does not give the bytes.
    #[error("{}: cannot be read: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file as a whole cannot be one of etcd's.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// A page contradicts the format or another page.
    #[error("{}: page {page}: {problem}; the file is damaged: take another copy", path.display())]
    Page {
        /// The file.
        path: PathBuf,
        /// Number of the page.
        page: u64,
        /// The fault.
        problem: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            error,
        }
    }

    pub(crate) fn file(path: &Path, problem: impl Into<String>) -> Error {
        Error::File {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    pub(crate) fn page(path: &Path, page: u64, problem: impl Into<String>) -> Error {
        Error::Page {
            path: path.to_owned(),
            page,
            problem: problem.into(),
        }
    }
}
