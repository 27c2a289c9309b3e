//! The errors of a node.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

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

    /// The replica has broken an invariant; the node accepts nothing until it is restarted.
    #[error("the replica has panicked, restart the node")]
    Panicked,

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

    /// The member's log and those of the other members contradict each other.
    #[error("{0}")]
    Diverged(String),

    /// The engine could not open the directory, or could not read or write it.
    #[error("{0}")]
    Storage(Arc<engine::Error>),

    /// The state machine could not be opened or maintained.
    #[error("{0}")]
    Machine(revisions::Error),

    /// A file of the member, besides those of the engine, cannot be read or written.
    #[error("{}: {source}", file.display())]
    File {
        file: PathBuf,
        source: Arc<io::Error>,
    },

    /// A file of the member is damaged.
    #[error("{} {what}", file.display())]
    FileDamaged {
        file: PathBuf,
        /// The fault and the remedy: a predicate, with the file as its subject.
        what: String,
    },

    /// An option, or several together, cannot work.
    #[error("{0}")]
    InvalidOptions(String),

    /// The system starts no thread.
    #[error("cannot start a thread: {0}")]
    Thread(Arc<io::Error>),

    /// The system does not provide what a member needs to start: random bytes, or a network.
    #[error("{0}")]
    System(String),
}

impl Error {
    /// An error of the state machine as a whole, not of one command.
    pub(crate) fn of_machine(error: revisions::Error) -> Error {
        match error {
            revisions::Error::Storage(error) => Error::Storage(error),
            error => Error::Machine(error),
        }
    }

    pub(crate) fn thread(error: io::Error) -> Error {
        Error::Thread(Arc::new(error))
    }

    pub(crate) fn file(file: PathBuf) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::File {
            file,
            source: Arc::new(source),
        }
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Error {
        Error::Storage(Arc::new(error))
    }
}

impl From<peers::StartError> for Error {
    fn from(error: peers::StartError) -> Error {
        match error {
            peers::StartError::System(_) => Error::System(error.to_string()),
            _ => Error::InvalidOptions(error.to_string()),
        }
    }
}
