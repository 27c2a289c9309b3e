//! Requesters of commands, and their answers.

use revisions::{Command, LeaseResponse, Response};
use tokio::sync::oneshot;

use crate::Error;

/// The channel to a local requester.
pub type ReplySender<T> = oneshot::Sender<Result<T, Error>>;

/// A local requester, and the outcome to send to it.
#[derive(Debug)]
pub struct Reply<T> {
    to: ReplySender<T>,
    outcome: Result<T, Error>,
}

impl<T> Reply<T> {
    pub(super) fn new(to: ReplySender<T>, outcome: Result<T, Error>) -> Reply<T> {
        Reply { to, outcome }
    }

    /// Sends the outcome; does nothing if the requester has given up.
    pub fn send(self) {
        let _ = self.to.send(self.outcome);
    }
}

/// The replies to local requesters that can be sent now.
#[derive(Debug, Default)]
pub struct Replies {
    pub(super) commands: Vec<Reply<Response>>,
    /// Permissions to read, outcomes of transfers of leadership, or why one of these has failed.
    pub(super) done: Vec<Reply<()>>,
    pub(super) leases: Vec<Reply<LeaseResponse>>,
}

impl Replies {
    /// Sends all of them.
    pub fn send(self) {
        self.commands.into_iter().for_each(Reply::send);
        self.done.into_iter().for_each(Reply::send);
        self.leases.into_iter().for_each(Reply::send);
    }
}

/// The receiver of a command's answer.
#[derive(Debug)]
pub(super) enum Requester {
    /// A request task of this node.
    Local(ReplySender<Response>),
    /// A follower that forwarded the command.
    Member {
        member: u64,
        /// The follower's number for the command.
        number: u64,
    },
    /// The replica itself; the answer is dropped.
    Internal,
    /// The replica itself, which revokes a lease that has expired.
    Expiry,
}

/// An evaluated command's answer, held back until it may be sent.
#[derive(Debug)]
pub(super) struct Answer {
    pub requester: Requester,
    pub outcome: Result<Response, Error>,
    /// Index of the entry that contains the command's effect, or after which it was
    /// evaluated. A follower answers its client when it has applied this entry.
    pub index: u64,
    /// Revision of a physical compaction: the answer waits until the sweep has reached it.
    pub swept: Option<i64>,
    /// A copy of the command, if it needs no room. If its batch is refused for lack of
    /// room, it is evaluated again without the commands that need room.
    pub roomless: Option<Box<Command>>,
}

impl Answer {
    pub fn new(requester: Requester, outcome: Result<Response, Error>) -> Answer {
        Answer {
            requester,
            outcome,
            index: 0,
            swept: None,
            roomless: None,
        }
    }

    /// Replaces the outcome by `error`, because the outcome cannot be given.
    pub fn failed(mut self, error: &Error) -> Answer {
        self.outcome = Err(error.clone());
        self
    }
}

/// Error for a command that was certainly not carried out, because its leader lost its
/// leadership.
pub(super) fn leader_changed() -> Error {
    Error::Refused(etcd_api::Error::LeaderChanged.into())
}

/// Error for a command with an unknown outcome, after a change of leader.
pub(super) fn leader_lost() -> Error {
    Error::Refused(etcd_api::Error::TimeoutDueToLeaderFail.into())
}

/// Error for a request that has waited too long.
pub(super) fn timeout() -> Error {
    Error::Refused(etcd_api::Error::Timeout.into())
}
