//! Who asked, and what they are told.

use revisions::{Command, Response};
use tokio::sync::oneshot;

use crate::Error;

/// A local asker, and what it is told.
pub type Told<T> = (oneshot::Sender<Result<T, Error>>, Result<T, Error>);

/// Who waits for a command's answer.
#[derive(Debug)]
pub enum Asker {
    /// A request task of this node.
    Local(oneshot::Sender<Result<Response, Error>>),
    /// A follower that was asked.
    Member {
        /// Which.
        member: u64,
        /// Its number for the command.
        number: u64,
    },
    /// Nobody: the replica's own command.
    Nobody,
}

/// An evaluated command's answer, held back until it may be given.
#[derive(Debug)]
pub struct Answer {
    /// Who asked.
    pub to: Asker,
    /// What they are told.
    pub outcome: Result<Response, Error>,
    /// Entry that it is part of, or was decided after; what a follower waits
    /// for.
    pub index: u64,
    /// A physical compaction: to be given when what it lets go has gone.
    pub(super) swept: Option<i64>,
    /// The command, if it needs no room: others in its batch may, and then it
    /// is evaluated again without them.
    pub(super) roomless: Option<Box<Command>>,
    /// The end of a lease that nobody renewed.
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

    /// Gives a local answer; nobody listening any more is fine.
    pub fn give(self) {
        if let Asker::Local(to) = self.to {
            let _ = to.send(self.outcome);
        }
    }

    /// With `error` instead: the outcome did not come true.
    pub(super) fn failed(mut self, error: &Error) -> Answer {
        self.outcome = Err(error.clone());
        self
    }
}
