//! Errors: each names the object or the file, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a backup cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store does not do what it was asked for.
    #[error("{object}: the store cannot {action} it: {source}")]
    Store {
        /// Path of the object, or of the folder.
        object: String,
        /// The request that failed, such as `read`.
        action: &'static str,
        /// The store's error.
        source: object_store::Error,
    },
    /// The store has not answered.
    #[error("{object}: the store did not {action} it within {seconds} s")]
    Late {
        /// Path of the object, or of the folder.
        object: String,
        /// The request that was not answered.
        action: &'static str,
        /// The time that was given.
        seconds: u64,
    },
    /// The bytes of an object are not those that were stored.
    #[error("{object}: {problem}; the store has lost or changed what was written to it")]
    Damaged {
        /// Path of the object.
        object: String,
        /// The fault.
        problem: String,
    },
    /// An object that was just stored is not there as it was stored, and was deleted again.
    #[error("an object was not stored as it was sent, and what it replaces was kept: {0}")]
    NotStored(Box<Error>),
    /// An object is of another release.
    #[error("{object}: it has version {version} of the format, and this program reads version 1")]
    Version {
        /// Path of the object.
        object: String,
        /// Its version.
        version: u16,
    },
    /// The backup does not have what was asked for.
    #[error("{0}")]
    Unavailable(String),
    /// The restored rows are not those of the cluster.
    #[error(
        "the restored rows have HashKV {found} at revision {revision}, and the cluster had {expected}"
    )]
    Different {
        /// The revision that was hashed.
        revision: i64,
        /// The hash that the cluster gave.
        expected: u32,
        /// The hash of the rows.
        found: u32,
    },
    /// A file of this machine cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file of etcd cannot be used.
    #[error(transparent)]
    File(#[from] etcd_snapshot::Error),
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            error,
        }
    }

    pub(crate) fn damaged(object: impl ToString, problem: impl ToString) -> Error {
        Error::Damaged {
            object: object.to_string(),
            problem: problem.to_string(),
        }
    }

    /// Whether another attempt has the same outcome until an operator changes something.
    pub fn is_permanent(&self) -> bool {
        use object_store::Error as Refusal;
        match self {
            Error::Late { .. } | Error::NotStored(_) => false,
            Error::Store { source, .. } => matches!(
                source,
                Refusal::InvalidPath { .. }
                    | Refusal::NotSupported { .. }
                    | Refusal::NotImplemented { .. }
                    | Refusal::PermissionDenied { .. }
                    | Refusal::Unauthenticated { .. }
                    | Refusal::UnknownConfigurationKey { .. }
            ),
            _ => true,
        }
    }

    /// Whether an object is not there.
    pub fn is_missing(&self) -> bool {
        let missing = |source: &_| matches!(source, object_store::Error::NotFound { .. });
        matches!(self, Error::Store { source, .. } if missing(source))
    }

    /// Whether the object that the error names cannot be used, whatever is tried.
    pub fn is_loss(&self) -> bool {
        self.is_missing() || matches!(self, Error::Damaged { .. })
    }
}
