//! This member is a member no more.
//!
//! A follower that applies its own removal, or hears of it, ends at once. A leader
//! stays a little: its followers have the entry, and may not know yet that it is
//! committed. Where one of them is left, it would need this member's vote to find
//! out. So the leader tells them, hands over, and then ends.

use environment::Instant;
use raft::StateRole;

use super::Replica;
use crate::Error;

/// A leader that was removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// The entry that says so.
    index: u64,
    until: Instant,
}

impl Replica {
    /// Another member says that this one was removed.
    pub fn told_of_removal(&mut self) {
        if self.leaving.is_none() {
            self.fail_removed();
        }
    }

    fn fail_removed(&mut self) {
        if self.failed.is_none() {
            tracing::warn!("this member was removed from its cluster");
            self.leader = 0;
            self.fail(Error::Removed {
                member: self.member_id,
            });
        }
    }

    /// The configuration has changed with this entry.
    pub(super) fn look_for_own_removal(&mut self, index: u64) {
        if self.leaving.is_some() || !self.reader.is_removed(self.member_id) {
            return;
        }
        if self.consensus.raft().state != StateRole::Leader {
            self.fail_removed();
            return;
        }
        self.step_down();
        self.leaving = Some(Leaving {
            index,
            until: self.clock.now() + self.leaving_patience,
        });
    }

    /// All that were heard of lately know that the entry is committed.
    fn all_know(&self, index: u64) -> bool {
        let mut others = self.consensus.raft().prs().iter();
        others.all(|(_, it)| !it.recent_active || it.committed_index >= index)
    }

    /// Ends, once the others know or have had time to.
    pub(super) fn leave(&mut self) -> Result<(), Error> {
        let Some(Leaving { index, until }) = self.leaving else {
            return Ok(());
        };
        if self.consensus.raft().state == StateRole::Leader {
            if !self.all_know(index) && self.clock.now() < until {
                return Ok(());
            }
            if let Some(successor) = self.successor() {
                self.consensus.transfer(successor);
                self.settle()?;
            }
        }
        self.fail_removed();
        Ok(())
    }
}
