//! What can go wrong, and what the caller should do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::Shortage;

use crate::Position;

/// An operation of the log failed. Clones share the cause.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused; the log itself is unharmed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Bytes that were stable once no longer verify. Repair from a peer or a
    /// backup; never ignored.
    #[error("{} is damaged at byte {offset}: {what}; {remedy}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What does not verify.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A write or flush failed earlier. Nothing is accepted until the log has
    /// been opened again.
    #[error("the log has stopped after a failed write ({reason}); restart to recover")]
    Failed {
        /// The first failure.
        reason: Arc<str>,
    },
    /// No room for another segment. Free space, or release segments; the
    /// append may then be tried again.
    #[error(
        "no room for another segment in {}: {available_bytes} bytes free, {needed_bytes} needed \
         (reserve included); free disk space, raise the quota or compact",
        directory.display()
    )]
    NoSpace {
        /// Where the log lives.
        directory: PathBuf,
        /// Free space wanted, with the reserve.
        needed_bytes: u64,
        /// Free space found.
        available_bytes: u64,
    },
    /// No further segment can be made at present, for another reason than a full disk: the
    /// process has no file descriptor left, or the system no memory, or the directory cannot
    /// be written. The log is unharmed, and nothing of the refused call was
    /// written: try again when the cause has gone.
    #[error("no further segment of the log can be made at present: {cause}")]
    NoSegment {
        /// Why making one failed.
        cause: Arc<Error>,
    },
    /// A group that no segment can hold. Split it.
    #[error(
        "a group of {bytes} bytes exceeds the {limit_bytes} bytes a segment holds; split it or open the log with larger segments"
    )]
    TooLarge {
        /// Size of the group.
        bytes: u64,
        /// Largest size accepted.
        limit_bytes: u64,
    },
    /// A file under one of the log's names that this log did not write. Move
    /// it away.
    #[error("{} is not a segment of this log ({what}); move it out of the log's directory", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// How it differs.
        what: String,
    },
    /// Written by another version of this library.
    #[error("{} has format version {found}, this program reads {supported}; use the version that wrote it", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// There is no such record (any more): released, or not durable yet. Look
    /// the position up again.
    #[error("no record at {position}: its segment was released, or it is not durable yet")]
    NotFound {
        /// What was asked for.
        position: Position,
    },
    /// An option cannot work. Correct the call.
    #[error("option {name} = {value} is not possible; accepted: {accepted}")]
    Option {
        /// Field of [`crate::Options`].
        name: &'static str,
        /// Its value.
        value: u64,
        /// What would do.
        accepted: &'static str,
    },
    /// The call does not fit the log's state. Correct the caller.
    #[error("{what}")]
    Misuse {
        /// What was wrong.
        what: String,
    },
    /// No salt for a new log. Set [`crate::Options::salt`], or try again.
    #[error("no randomness from the kernel ({0}); set `salt` to do without")]
    Randomness(Arc<io::Error>),
    /// The visitor of [`crate::Log::open`] refused a group.
    #[error("replay was refused: {0}")]
    Visit(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps the refusal of a visitor, so that `open` can hand it back.
    pub fn visit(source: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Visit(Arc::new(source))
    }

    /// Whether the log refuses everything until it is opened again.
    pub fn is_failed(&self) -> bool {
        matches!(self, Error::Failed { .. })
    }

    /// Whether the log is unharmed and only lacks a further segment for now.
    pub fn is_shortage(&self) -> bool {
        matches!(self, Error::NoSpace { .. } | Error::NoSegment { .. })
    }

    /// The resource that ran out, if a system call reported one.
    pub fn shortage(&self) -> Option<Shortage> {
        match self {
            Error::NoSpace { .. } => Some(Shortage::Room),
            Error::NoSegment { cause } => cause.shortage(),
            Error::Io { source, .. } => Shortage::of(source),
            _ => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            action,
            path: path.to_path_buf(),
            source: Arc::new(source),
        }
    }

    pub(crate) fn damaged(file: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged {
            file: file.to_path_buf(),
            offset,
            what: what.into(),
            remedy: "restore it from a peer or a backup",
        }
    }
}
