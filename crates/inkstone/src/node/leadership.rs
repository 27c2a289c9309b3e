//! Who leads, and word of each change of it.

use tokio::sync::watch;

use crate::waiting::block_on;
use crate::{Error, Remedy};

/// Who leads, as far as one member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// Number of the election; it never falls, and has one leader at most.
    pub term: u64,
    /// The leader's id; `None` while there is none, or none is known.
    pub leader: Option<u64>,
}

impl From<cluster::Leadership> for Leadership {
    fn from(told: cluster::Leadership) -> Leadership {
        Leadership {
            term: told.term,
            leader: Some(told.leader).filter(|&leader| leader != 0),
        }
    }
}

/// Word of each change of who leads, from
/// [`Node::leadership_changes`](crate::Node::leadership_changes). First it tells
/// how things stand; changes that follow each other faster than they are taken
/// are told as one, the newest.
///
/// It tells what this member has heard. Do not take it for a lock: another may
/// lead already. What must be done by one alone is guarded by a
/// [`Transaction`](crate::Transaction).
#[derive(Clone, Debug)]
pub struct LeadershipChanges {
    notices: watch::Receiver<cluster::Leadership>,
}

impl LeadershipChanges {
    pub(super) fn new(mut notices: watch::Receiver<cluster::Leadership>) -> LeadershipChanges {
        notices.mark_changed();
        LeadershipChanges { notices }
    }

    /// Waits on this thread for the next change. An error: the node has stopped.
    #[expect(
        clippy::should_implement_trait,
        reason = "changes have no end, only errors"
    )]
    pub fn next(&mut self) -> Result<Leadership, Error> {
        block_on(self.receive())
    }

    /// [`LeadershipChanges::next`] for tasks. Dropping the future loses nothing.
    pub async fn receive(&mut self) -> Result<Leadership, Error> {
        self.notices.changed().await.map_err(|_| stopped())?;
        Ok((*self.notices.borrow_and_update()).into())
    }

    /// Waits until somebody leads.
    pub(super) async fn led(mut self) -> Result<Leadership, Error> {
        let led = self.notices.wait_for(|told| told.leader != 0).await;
        led.map(|told| (*told).into()).map_err(|_| stopped())
    }
}

fn stopped() -> Error {
    Error::new(Remedy::Reopen, "the node has stopped")
}
