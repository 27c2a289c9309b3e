//! The leader of the cluster, and notices of its changes.

use tokio::sync::watch;

use crate::waiting::block_on;
use crate::{Error, Remedy};

/// Term and leader, as far as one member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The term, which never decreases. A term has at most one leader.
    pub term: u64,
    /// Id of the leader; `None` while this member knows of none.
    pub leader: Option<u64>,
}

impl From<cluster::Status> for Leadership {
    fn from(known: cluster::Status) -> Leadership {
        Leadership {
            term: known.term,
            leader: Some(known.leader).filter(|&leader| leader != 0),
        }
    }
}

/// A cursor over the changes of leadership, from
/// [`Node::leadership_changes`](crate::Node::leadership_changes). It begins with the present
/// leadership. Of changes that happen faster than the caller takes them, it returns the
/// newest only.
///
/// The changes are those that this member knows of, so another member may lead already: do
/// not use leadership as a lock. Guard work that only one member may do by a
/// [`Transaction`](crate::Transaction).
#[derive(Clone, Debug)]
pub struct LeadershipChanges {
    notices: watch::Receiver<cluster::Status>,
}

impl LeadershipChanges {
    pub(super) fn new(mut notices: watch::Receiver<cluster::Status>) -> LeadershipChanges {
        notices.mark_changed();
        LeadershipChanges { notices }
    }

    /// Blocks the calling thread until the next change and returns it. Fails when the node has
    /// stopped.
    #[expect(
        clippy::should_implement_trait,
        reason = "changes have no end, only errors"
    )]
    pub fn next(&mut self) -> Result<Leadership, Error> {
        block_on(self.receive())
    }

    /// [`LeadershipChanges::next`] for tasks. Dropping the future loses no change.
    pub async fn receive(&mut self) -> Result<Leadership, Error> {
        self.notices.changed().await.map_err(|_| stopped())?;
        Ok((*self.notices.borrow_and_update()).into())
    }

    /// Waits until a member leads.
    pub(super) async fn led(mut self) -> Result<Leadership, Error> {
        let led = self.notices.wait_for(|known| known.leader != 0).await;
        led.map(|known| (*known).into()).map_err(|_| stopped())
    }
}

fn stopped() -> Error {
    Error::new(Remedy::Reopen, "the node has stopped")
}
