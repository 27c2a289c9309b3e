//! A leader that is removed goes on for a while, and has to get some things past the
//! Raft library, and past its own device.

use raft::StateRole;
use raft::eraftpb::{ConfChangeType, ConfChangeV2};

use super::consensus::{Consensus, Pending};
use super::entry::configuration_change;
use crate::Error;

impl Consensus {
    /// Whether this member, as a leader, has counted the entry as committed. Maybe
    /// nobody else knows.
    pub fn committed_itself(&self, index: u64) -> bool {
        index <= self.counted
    }

    /// After everything that may commit entries.
    pub(super) fn note_counted(&mut self) {
        let raft = &self.node.raft;
        if raft.state == StateRole::Leader {
            self.counted = raft.raft_log.committed;
        }
    }

    /// Before an entry is applied, and readers and the peers' door can see what it has
    /// changed: who hears there that it is removed goes for good, and with it a vote
    /// that would be needed to find out again.
    pub fn remember_before_it_shows(&mut self, pending: &Pending) -> Result<(), Error> {
        if !pending.changes_configuration {
            return Ok(());
        }
        let index = pending.batch.index;
        let change = configuration_change(&self.body(index)?);
        match change {
            Some(change) if self.is_remembered_at_once(index, &change) => {
                self.remember_commit(index)
            }
            _ => Ok(()),
        }
    }

    /// Who ends with this change at once must find it on its device at the next start.
    /// Who has counted that it is removed itself stays until others know; should it be
    /// started again before that, it has forgotten, and has a vote to find out with.
    fn is_remembered_at_once(&self, index: u64, change: &ConfChangeV2) -> bool {
        let own = |it: &raft::eraftpb::ConfChangeSingle| {
            it.get_change_type() == ConfChangeType::RemoveNode && it.node_id == self.node.raft.id
        };
        !(self.committed_itself(index) && change.changes.iter().any(own))
    }

    /// The next start is refused: others know that this member is removed.
    pub fn remember_own_removal(&mut self, index: u64) -> Result<(), Error> {
        self.remember_commit(index)
    }

    /// The library looks for the leader among the members when its log is on stable
    /// storage, and panics where it is none any more. It does not look where it has
    /// nothing new to note.
    pub(super) fn note_persisted_without_progress(&mut self, last: (u64, u64)) {
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Leader && raft.prs().get(raft.id).is_none() {
            raft.raft_log.maybe_persist(last.0, last.1);
        }
    }
}
