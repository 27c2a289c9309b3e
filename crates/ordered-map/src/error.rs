//! What can go wrong, and what to do about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a call did not do what it was asked. Its message says what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The engine says why: another process has the directory, the disk is full, a file is
    /// damaged, a batch is too large. After a failed write or flush nothing is written any
    /// more until the map is opened again, and whether the write happened is not known.
    #[error(transparent)]
    Engine(Arc<engine::Error>),
    /// The directory's log is no map's; it is as it was. Choose another directory, or open
    /// it with what wrote it.
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
    /// The keys have reached their limit of memory. Only deletions pass until there is room;
    /// snapshots keep what later writes replace.
    #[error(
        "the keys in {} take {index_bytes} bytes of the {memory_bytes_max} allowed; delete some, drop snapshots, or open it with a greater memory_bytes_max",
        directory.display()
    )]
    MemoryLimit {
        /// The directory.
        directory: PathBuf,
        /// What they take now.
        index_bytes: u64,
        /// [`Options::memory_bytes_max`](crate::Options::memory_bytes_max).
        memory_bytes_max: u64,
    },
    /// The disk is full but for the reserve. Only deletions pass until there is room: what
    /// was deleted is given back by and by.
    #[error(
        "{} has {available_bytes} bytes left and {reserve_bytes} are kept in reserve; free space, or delete keys and try again in a while",
        directory.display()
    )]
    NoSpace {
        /// The directory.
        directory: PathBuf,
        /// Bytes the file system still has.
        available_bytes: u64,
        /// [`Options::reserve_bytes`](crate::Options::reserve_bytes), and a segment.
        reserve_bytes: u64,
    },
    /// The system refused a thread.
    #[error("cannot start the upkeep of {}: {reason}", directory.display())]
    Thread {
        /// The directory.
        directory: PathBuf,
        /// The system's answer.
        reason: String,
    },
    /// A write came upon a bug and panicked. Let all maps, snapshots and ranges of the
    /// directory go and open it again: what was acknowledged is there, what was under way
    /// may be.
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

impl Error {
    /// What a write to `directory` was refused for, in words of maps.
    pub(crate) fn of_write(error: engine::Error, directory: &Path) -> Error {
        let directory = directory.to_owned();
        match error {
            engine::Error::MemoryLimit {
                index_bytes,
                memory_bytes_max,
            } => Error::MemoryLimit {
                directory,
                index_bytes,
                memory_bytes_max,
            },
            engine::Error::NoSpace {
                available_bytes,
                reserve_bytes,
                ..
            } => Error::NoSpace {
                directory,
                available_bytes,
                reserve_bytes,
            },
            error => error.into(),
        }
    }
}
