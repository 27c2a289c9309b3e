//! Requesters of commands, and their answers.

use revisions::{Command, Response};
use tokio::sync::oneshot;

use crate::Error;

/// The channel to a local requester, and the outcome to send on it.
pub type Told<T> = (oneshot::Sender<Result<T, Error>>, Result<T, Error>);

/// The receiver of a command's answer.
#[derive(Debug)]
pub enum Asker {
    /// A request task of this node.
    Local(oneshot::Sender<Result<Response, Error>>),
    /// A follower that forwarded the command.
    Member {
        member: u64,
        /// The follower's number for the command.
        number: u64,
    },
    /// The replica itself; the answer is dropped.
    Internal,
}

/// An evaluated command's answer, held back until it may be given.
#[derive(Debug)]
pub struct Answer {
    pub to: Asker,
    pub outcome: Result<Response, Error>,
    /// Index of the entry that contains the command's effect, or after which it was
    /// evaluated. A follower gives the answer to its client when it has applied this entry.
    pub index: u64,
    /// Revision of a physical compaction: the answer waits until the sweep has reached it.
    pub(super) swept: Option<i64>,
    /// A copy of the command, if it needs no room. If its batch is refused for lack of
    /// room, it is evaluated again without the commands that need room.
    pub(super) roomless: Option<Box<Command>>,
    /// The command revokes a lease that has expired.
    pub(super) ends_lease: bool,
}

impl Answer {
    pub(super) fn new(to: Asker, outcome: Result<Response, Error>) -> Answer {
        Answer {
            to,
            outcome,
            index: 0,
            swept: None,
            roomless: None,
            ends_lease: false,
        }
    }

    /// Sends a local answer; does nothing if the caller has given up.
    pub fn give(self) {
        if let Asker::Local(to) = self.to {
            let _ = to.send(self.outcome);
        }
    }

    /// Replaces the outcome by `error`, because the outcome cannot be given.
    pub(super) fn failed(mut self, error: &Error) -> Answer {
        self.outcome = Err(error.clone());
        self
    }
}
