//! Errors, classified by their remedy.

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

impl From<revisions::Error> for Error {
    fn from(error: revisions::Error) -> Error {
        let remedy = match &error {
            revisions::Error::Etcd(etcd) => return Error::refused(*etcd),
            revisions::Error::Storage(storage) => match storage.as_ref() {
                engine::Error::Compacted { .. } | engine::Error::TooLarge { .. } => {
                    Remedy::CorrectTheCall
                }
                engine::Error::NoSpace { .. } | engine::Error::MemoryLimit { .. } => {
                    Remedy::MakeRoom
                }
                _ if storage.is_shortage() || storage.shortage().is_some() => Remedy::Retry,
                _ => Remedy::Repair,
            },
            revisions::Error::Short(_) => Remedy::Retry,
            _ => Remedy::Repair,
        };
        Error::new(remedy, error.to_string())
    }
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Error {
        match error {
            cluster::Error::Refused(error) => Error::from(error),
            cluster::Error::TooManyRequests { .. } => Error::new(Remedy::Retry, error.to_string()),
            cluster::Error::Stopped | cluster::Error::LogFailed { .. } => {
                Error::new(Remedy::Reopen, error.to_string())
            }
            cluster::Error::Storage(_)
            | cluster::Error::Raft(_)
            | cluster::Error::Removed { .. } => Error::new(Remedy::Repair, error.to_string()),
        }
    }
}
