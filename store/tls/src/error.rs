//! Errors of settings, files and certificates.

use std::io;
use std::path::PathBuf;

/// Why TLS cannot be set up. Each message names the option, its value and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be used.
    #[error("--{option}={}: {problem}", path.display())]
    File {
        /// The option that names the file, without dashes.
        option: &'static str,
        path: PathBuf,
        problem: String,
    },
    /// A value that cannot be used.
    #[error("--{option}={text}: {remedy}")]
    Value {
        option: &'static str,
        text: String,
        remedy: String,
    },
    /// Settings that contradict each other, or the machine.
    #[error("{0}")]
    Conflict(String),
    /// The system does not start a thread, or has no randomness.
    #[error("TLS cannot start: {0}")]
    System(#[from] io::Error),
}
