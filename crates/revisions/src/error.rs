//! Why a request was refused.
//!
//! Two kinds that callers treat differently: what etcd's contract says about
//! the request ([`Error::Etcd`], the same on every node for the same state),
//! and what went wrong underneath ([`Error::Storage`], about this node only).

use std::sync::Arc;

use thiserror::Error;

/// A refused request. Nothing changed, with one exception: a write over the
/// quota raises the NOSPACE alarm.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// One of the errors that etcd's clients know; deterministic.
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
        /// What did not fit.
        reason: &'static str,
    },
    /// The members that a new cluster shall start with are no set of members.
    #[error(
        "initial member {id:x}: {what}; list every member once, each with peer URLs of its own"
    )]
    InitialMembers {
        /// Which of them.
        id: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A command or an answer of another member does not decode.
    #[error("a message from another member cannot be read ({0}); run the same release everywhere")]
    Unreadable(Arc<str>),
    /// The member that decides has run out of something but room on its disk: nothing
    /// was written, and the command may be tried again.
    #[error("{0}")]
    Short(Arc<str>),
    /// What went wrong on the member that decides, in its words.
    #[error("on the leader: {0}")]
    Elsewhere(Arc<str>),
    /// A value that the command needs is damaged on the member that decides, in its
    /// words.
    #[error("on the leader: {0}")]
    DamagedElsewhere(Arc<str>),
    /// The lease holds as many keys as can be deleted at once, which is how it
    /// ends: hang further keys on another lease.
    #[error(
        "lease {lease:016x} is full: deleting its keys would take {bytes} bytes of log and {bytes_max} are possible at once; hang further keys on another lease"
    )]
    LeaseFull {
        /// Which.
        lease: i64,
        /// What deleting all its keys would take, the new one included.
        bytes: u64,
        /// What a segment has room for.
        bytes_max: u64,
    },
    /// The command writes, and reads more besides than one evaluation may. Nothing changed.
    #[error(
        "a command that writes may read {bytes_max} bytes (each key that a condition or a range looks at counts 64 bytes besides its record) and this one reads more: read in a transaction without writes, with a limit, or in parts"
    )]
    ReadsTooMuch {
        /// What one evaluation may read.
        bytes_max: u64,
    },
    /// The kernel gave no random bytes.
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
