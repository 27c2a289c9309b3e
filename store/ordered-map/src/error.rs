//! What can go wrong, and what to do about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Error of a call on a map. Its message says what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The engine says why: another process has the directory, the disk is full, a file is
    /// damaged, a batch is too large. After a failed write or flush nothing is written until
    /// the map is opened again, and it is unknown whether the failed write is on the disk.
    #[error(transparent)]
    Engine(Arc<engine::Error>),
    /// The directory's log is not that of a map; nothing was changed. Choose another directory,
    /// or open it with the program that wrote it.
    #[error(
        "{} holds no ordered map ({what}); choose another directory, or open it with the program that wrote it",
        directory.display()
    )]
    Foreign {
        /// The directory of the map.
        directory: PathBuf,
        /// The content of the log or of a checkpoint that is not a map's.
        what: String,
    },
    /// The index has reached its limit of memory. Puts are refused until there is room; deletions
    /// pass. An open snapshot or range holds the memory of all versions that were replaced since
    /// it was made.
    #[error(
        "the keys in {} take {index_bytes} bytes of the {memory_bytes_max} allowed; delete some, drop snapshots, or open it with a greater memory_bytes_max",
        directory.display()
    )]
    MemoryLimit {
        /// The directory.
        directory: PathBuf,
        /// Bytes that they take now.
        index_bytes: u64,
        /// [`Options::memory_bytes_max`](crate::Options::memory_bytes_max).
        memory_bytes_max: u64,
    },
    /// The disk is full except for the reserve. Only deletions pass until there is room: upkeep
    /// gives the room of deleted values back after a while.
    #[error(
        "{} has {available_bytes} bytes left and {reserve_bytes} are kept in reserve; free space, or delete keys and try again in a while",
        directory.display()
    )]
    NoSpace {
        /// The directory of the map.
        directory: PathBuf,
        /// Free bytes of the file system.
        available_bytes: u64,
        /// [`Options::reserve_bytes`](crate::Options::reserve_bytes) and the size of one segment.
        reserve_bytes: u64,
    },
    /// The disk has no room for a compaction: until it ends, it needs copies of the values that lie
    /// out of the order of their keys.
    #[error(
        "to put {} in the order of its keys, {needed_bytes} bytes must be free, and {available_bytes} are; free space and try again",
        directory.display()
    )]
    NoRoomForCopy {
        /// The directory of the map.
        directory: PathBuf,
        /// Free bytes of the file system.
        available_bytes: u64,
        /// Bytes of the copies, of a checkpoint and two segments, and
        /// [`Options::reserve_bytes`](crate::Options::reserve_bytes).
        needed_bytes: u64,
    },
    /// The operating system refused to start the upkeep thread.
    #[error("cannot start the upkeep thread of {}: {reason}", directory.display())]
    Thread {
        /// The directory of the map.
        directory: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// A write panicked because of a bug. Drop all maps, snapshots and ranges of the
    /// directory and open it again: acknowledged writes are there, and those that were under
    /// way may be.
    #[error("a write to {} ended in a panic; open it again", directory.display())]
    Panicked {
        /// The directory of the map.
        directory: PathBuf,
    },
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Error {
        match error {
            engine::Error::NoRoomForCopy {
                directory,
                available_bytes,
                needed_bytes,
            } => Error::NoRoomForCopy {
                directory,
                available_bytes,
                needed_bytes,
            },
            error => Error::Engine(Arc::new(error)),
        }
    }
}

impl Error {
    /// The error of a refused write to `directory`.
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
