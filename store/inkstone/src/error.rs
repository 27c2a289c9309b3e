//! Errors, classified by their remedy.

use environment::Shortage;
use thiserror::Error;

/// The action that helps after an [`struct@Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The call is invalid: change its key, revision, size or option.
    CorrectTheCall,
    /// Make room (compact, delete, or raise a limit), call
    /// [`Store::disarm`](crate::Store::disarm), then call again.
    MakeRoom,
    /// Wait a moment, then call again.
    Retry,
    /// It is unknown whether the write was applied, and it may still be: the leader changed,
    /// or no majority answered in time. Call again if applying the write twice does no harm;
    /// otherwise read linearizably first, or use a [`Condition`](crate::Condition).
    LookFirst,
    /// Open the store again. Acknowledged writes are there; writes that were under way may
    /// be.
    Reopen,
    /// The files or the machine need repair by an operator; the message says which.
    Repair,
}

/// The error of a call: a message, and its [`Remedy`].
#[derive(Clone, Debug, Error)]
#[error("{message}")]
pub struct Error {
    remedy: Remedy,
    message: String,
}

impl Error {
    pub(crate) fn new(remedy: Remedy, message: impl Into<String>) -> Error {
        Error {
            remedy,
            message: message.into(),
        }
    }

    /// The action that helps.
    pub fn remedy(&self) -> Remedy {
        self.remedy
    }
}

impl Error {
    /// The error of a read. A failed read has changed nothing, so it may be repeated.
    pub(crate) fn of_read(error: cluster::Error) -> Error {
        let mut error = Error::from(error);
        if error.remedy == Remedy::LookFirst {
            error.remedy = Remedy::Retry;
        }
        error
    }

    /// The error of a command that the state machine refused by its rules.
    pub(crate) fn refused(error: etcd_api::Error) -> Error {
        use etcd_api::Error as Etcd;
        let remedy = match error {
            Etcd::NoSpace => Remedy::MakeRoom,
            Etcd::Timeout
            | Etcd::TimeoutDueToLeaderFail
            | Etcd::TimeoutDueToConnectionLost
            | Etcd::LeaderChanged => Remedy::LookFirst,
            Etcd::TooManyRequests
            | Etcd::NoLeader
            | Etcd::Unhealthy
            | Etcd::MemberNotEnoughStarted
            | Etcd::LearnerNotReady
            | Etcd::TimeoutWaitAppliedIndex => Remedy::Retry,
            Etcd::Corrupt => Remedy::Repair,
            _ => Remedy::CorrectTheCall,
        };
        Error::new(remedy, error.to_string())
    }
}

/// The action that helps after an error of the engine.
fn of_engine(error: &engine::Error) -> Remedy {
    match error {
        engine::Error::Compacted { .. }
        | engine::Error::TooLarge { .. }
        | engine::Error::Foreign { .. }
        | engine::Error::Log(value_log::Error::Option { .. }) => Remedy::CorrectTheCall,
        engine::Error::NoSpace { .. }
        | engine::Error::NoRoomForCopy { .. }
        | engine::Error::MemoryLimit { .. } => Remedy::MakeRoom,
        engine::Error::DirectoryInUse { .. } => Remedy::Retry,
        engine::Error::Closed { .. } => Remedy::Reopen,
        _ if error.is_shortage() || error.shortage().is_some() => Remedy::Retry,
        _ => Remedy::Repair,
    }
}

impl From<revisions::Error> for Error {
    fn from(error: revisions::Error) -> Error {
        let remedy = match &error {
            revisions::Error::Etcd(etcd) => return Error::refused(*etcd),
            revisions::Error::Storage(storage) => of_engine(storage),
            revisions::Error::InitialMembers { .. } => Remedy::CorrectTheCall,
            revisions::Error::Short(_) | revisions::Error::Randomness(_) => Remedy::Retry,
            _ => Remedy::Repair,
        };
        Error::new(remedy, error.to_string())
    }
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Error {
        use cluster::Error as Node;
        let remedy = match &error {
            Node::Refused(refused) | Node::Machine(refused) => return Error::from(refused.clone()),
            Node::InvalidOptions(_) => Remedy::CorrectTheCall,
            Node::TooManyRequests { .. } | Node::Thread(_) | Node::System(_) => Remedy::Retry,
            Node::Stopped | Node::LogFailed { .. } | Node::Panicked => Remedy::Reopen,
            Node::Storage(storage) => of_engine(storage),
            Node::File { source, .. } if Shortage::of(source).is_some() => Remedy::Retry,
            Node::File { .. }
            | Node::FileDamaged { .. }
            | Node::Diverged(_)
            | Node::Raft(_)
            | Node::Removed { .. } => Remedy::Repair,
        };
        Error::new(remedy, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    fn remedy(error: cluster::Error) -> Remedy {
        Error::from(error).remedy()
    }

    #[test]
    fn a_thread_that_cannot_start_is_no_damage_and_no_wrong_option() {
        let thread = io::Error::from(io::ErrorKind::WouldBlock);
        assert_eq!(
            remedy(cluster::Error::Thread(Arc::new(thread))),
            Remedy::Retry
        );
        let option = cluster::Error::InvalidOptions("`flushing` is ...".to_owned());
        assert_eq!(remedy(option), Remedy::CorrectTheCall);
        let damaged = cluster::Error::FileDamaged {
            file: "data/REMOVED".into(),
            what: "does not match its checksum".to_owned(),
        };
        assert_eq!(remedy(damaged), Remedy::Repair);
        assert_eq!(remedy(cluster::Error::Panicked), Remedy::Reopen);
    }

    #[test]
    fn a_file_that_cannot_be_written_for_want_of_room_is_no_damage() {
        let file = |kind: io::ErrorKind| cluster::Error::File {
            file: "data/LIFE".into(),
            source: Arc::new(kind.into()),
        };
        assert_eq!(remedy(file(io::ErrorKind::StorageFull)), Remedy::Retry);
        assert_eq!(
            remedy(file(io::ErrorKind::PermissionDenied)),
            Remedy::Repair
        );
    }
}
