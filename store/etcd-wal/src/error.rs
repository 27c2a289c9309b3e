//! Errors of reading a log.

use std::io;
use std::path::PathBuf;

/// Why a log is not used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or the folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder has no file of a log.
    #[error(
        "{} has no *.wal file: name the directory of etcd's --wal-dir, or that of its --data-dir",
        .0.display()
    )]
    NoFile(PathBuf),
    /// A file between two others is missing.
    #[error(
        "{} follows {}, and a file between them is missing; copy the whole directory",
        next.display(),
        before.display()
    )]
    MissingFile {
        /// The last file before the gap.
        before: PathBuf,
        /// The first file behind it.
        next: PathBuf,
    },
    /// Bytes that etcd cannot have written.
    #[error(
        "{}, byte {offset}: {problem}. Take the directory of another member, or, without the \
         log, member/snap/db alone (`inkstone snapshot restore --skip-hash-check`)",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// The fault.
        problem: String,
    },
    /// The log does not continue the database file.
    #[error("{}: {problem}", directory.display())]
    Gap {
        /// The folder.
        directory: PathBuf,
        /// The missing part, and the remedy.
        problem: String,
    },
}
