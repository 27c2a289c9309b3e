//! What can become of a proposal or a read besides its answer.

use thiserror::Error;

/// Why a node did not do what it was asked.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// The state machine refused the command; nothing changed.
    #[error(transparent)]
    Refused(#[from] revisions::Error),

    /// The queue of proposals is full. Try again later.
    #[error("too many requests are waiting ({waiting_bytes} bytes of at most {bytes_max})")]
    TooManyRequests {
        /// Bytes waiting when the proposal came.
        waiting_bytes: usize,
        /// The limit, [`crate::NodeOptions::queue_bytes_max`].
        bytes_max: usize,
    },

    /// The node is stopping or has stopped.
    #[error("the node has stopped")]
    Stopped,

    /// A write or a flush of the log failed: whether this command is durable
    /// is not known, and the node accepts no write until it is restarted.
    #[error("the log has failed, restart the node: {reason}")]
    LogFailed {
        /// What the log said.
        reason: String,
    },

    /// The cluster goes on without this member, for ever. Restarting it does not
    /// help: its directory belongs to nobody any more.
    #[error(
        "member {member:x} was removed from its cluster; begin anew in an empty directory, \
         as a new member"
    )]
    Removed {
        /// This member's id.
        member: u64,
    },

    /// The consensus refused; nothing changed.
    #[error("raft: {0}")]
    Raft(String),

    /// The node could not be started or maintained.
    #[error("{0}")]
    Storage(String),
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Error {
        Error::Storage(error.to_string())
    }
}
