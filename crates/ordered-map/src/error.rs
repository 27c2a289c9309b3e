//! What can go wrong, and what to do about it.

use std::path::PathBuf;
use std::sync::Arc;

/// Why a call did not do what it was asked. Its message says what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The engine says why: another process has the directory, the disk is full, a file is
    /// damaged, a batch is too large. After a failed write or flush nothing is written any
    /// more until the map is opened again, and whether the write happened is not known.
    #[error(transparent)]
    Engine(Arc<engine::Error>),
    /// The directory holds something else. Nothing was changed. Choose another directory,
    /// or open it with what wrote it.
    #[error(
        "{} holds no ordered map ({what}); choose another directory, or open it with the program that wrote it",
        directory.display()
    )]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// What was found.
        what: String,
    },
    /// The system refused a thread.
    #[error("cannot start the upkeep of {}: {reason}", directory.display())]
    Thread {
        /// The directory.
        directory: PathBuf,
        /// The system's answer.
        reason: String,
    },
    /// A write came upon a bug and panicked. Open the map again: what was acknowledged is
    /// there, what was under way may be.
    #[error("a write to {} ended in a panic; open it again", directory.display())]
    Panicked {
        /// The directory.
        directory: PathBuf,
    },
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Error {
        Error::Engine(Arc::new(error))
    }
}
