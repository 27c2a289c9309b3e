//! The errors of a node.

use thiserror::Error;

/// Why a node did not carry out a request.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// The state machine refused the command; nothing changed.
    #[error(transparent)]
    Refused(#[from] revisions::Error),

    /// The queue of proposals is full. Try again later.
    #[error("too many requests are waiting ({waiting_bytes} bytes of at most {bytes_max})")]
    TooManyRequests {
        /// Bytes that waited when the proposal arrived.
        waiting_bytes: usize,
        /// The limit, [`crate::NodeOptions::queue_bytes_max`].
        bytes_max: usize,
    },

    /// The node is stopping or has stopped.
    #[error("the node has stopped")]
    Stopped,

    /// A write or a flush of the log failed. It is unknown whether this command is durable, and
    /// the node accepts no write until it is restarted.
    #[error("the log has failed, restart the node: {reason}")]
    LogFailed {
        /// The log's error.
        reason: String,
    },

    /// The member was removed from its cluster. A restart does not help: its directory belongs
    /// to no member any more.
    #[error(
        "member {member:x} was removed from its cluster; add a new member and start it in an \
         empty directory"
    )]
    Removed {
        /// This member's id.
        member: u64,
    },

    /// The consensus refused the request; nothing changed.
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
