//! Errors of requests.
//!
//! Callers treat two kinds differently: refusals of etcd's contract ([`Error::Etcd`], the same on
//! every node with the same state), and failures of this node's storage ([`Error::Storage`]).

use std::sync::Arc;

use thiserror::Error;

/// A refused request. Nothing changed, with one exception: a write over the
/// quota raises the NOSPACE alarm.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// One of etcd's errors; deterministic.
    #[error(transparent)]
    Etcd(#[from] etcd_api::Error),
    /// The engine could not read or write; its message says what to do.
    #[error("storage: {0}")]
    Storage(Arc<engine::Error>),
    /// A state record or the checkpoint's state does not decode: the directory
    /// was written by a newer release or is damaged.
    #[error(
        "state record of kind {kind} cannot be read ({reason}); start the release that wrote this directory, or restore from a backup"
    )]
    State {
        /// First byte of the record; 0 for the checkpoint's state.
        kind: u8,
        /// The part that could not be read.
        reason: &'static str,
    },
    /// The initial members of a new cluster contradict each other, or one of them is invalid.
    #[error(
        "initial member {id:x}: {what}; list every member once, each with peer URLs of its own"
    )]
    InitialMembers {
        id: u64,
        /// The fault of this member.
        what: &'static str,
    },
    /// A command or an answer of another member cannot be decoded.
    #[error("a message from another member cannot be read ({0}); run the same release everywhere")]
    Unreadable(Arc<str>),
    /// The leader has run out of descriptors or memory, or another resource except disk space:
    /// nothing was written, and the command may be tried again.
    #[error("{0}")]
    Short(Arc<str>),
    /// Another error of the leader, as its message.
    #[error("on the leader: {0}")]
    Elsewhere(Arc<str>),
    /// A value that the command needs is damaged on the leader, as its message.
    #[error("on the leader: {0}")]
    DamagedElsewhere(Arc<str>),
    /// The lease has as many keys as one batch can delete, and ending a lease deletes all its
    /// keys in one batch. Attach further keys to another lease.
    #[error(
        "lease {lease:016x} is full: deleting its keys would take {bytes} bytes of log and {bytes_max} are possible at once; hang further keys on another lease"
    )]
    LeaseFull {
        lease: i64,
        /// Log bytes of the deletion of all its keys and the new one.
        bytes: u64,
        /// Most log bytes that one batch can have for deletions.
        bytes_max: u64,
    },
    /// The command writes and also reads more than one evaluation may. Nothing changed.
    #[error(
        "a command that writes may read {bytes_max} bytes (each key that a condition or a range looks at counts 64 bytes besides its record) and this one reads more: read in a transaction without writes, with a limit, or in parts"
    )]
    ReadsTooMuch {
        /// Most bytes that one evaluation may read.
        bytes_max: u64,
    },
    /// The store follows another cluster and this change is not the source's, or it is one that does not
    /// continue what the store has.
    #[error("{0}")]
    Follow(Arc<str>),
    /// The state cannot be written as a file of etcd.
    #[error("no snapshot in etcd's format can be made: {0}")]
    NoSnapshot(Arc<str>),
    /// The kernel returned no random bytes.
    #[error("no randomness from the kernel ({0}); set `lease_id_seed` to do without")]
    Randomness(Arc<std::io::Error>),
}

impl Error {
    pub(crate) fn randomness(error: std::io::Error) -> Error {
        Error::Randomness(Arc::new(error))
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Error {
        Error::Storage(Arc::new(error))
    }
}
