//! What a removed leader, which continues for a while, needs from the Raft library and from
//! its own device.

use raft::StateRole;
use raft::eraftpb::{ConfChangeType, ConfChangeV2};

use super::consensus::{Consensus, Pending};
use super::entry::configuration_change;
use crate::Error;

impl Consensus {
    /// Whether this member, as a leader, determined itself that the entry is committed. Then it
    /// is possible that no other member knows of the commit.
    pub fn committed_itself(&self, index: u64) -> bool {
        index <= self.counted
    }

    /// Notes the leader's commit index. To be called after every step that may raise it.
    pub(super) fn note_counted(&mut self) {
        let raft = &self.node.raft;
        if raft.state == StateRole::Leader {
            self.counted = raft.raft_log.committed;
        }
    }

    /// Puts on stable storage that a change of the configuration is committed. This must precede
    /// the entry's apply: from then on readers see the change, and connections of a removed
    /// member are refused. That member ends for good, and its vote could be needed to find out
    /// again that the entry is committed.
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

    /// Whether the commit of this change must be on stable storage at once. The exception is a
    /// leader that has itself determined that its own removal is committed: it stays until
    /// others know, and if it restarts before that, it still has a vote to find out with.
    fn is_remembered_at_once(&self, index: u64, change: &ConfChangeV2) -> bool {
        let own = |it: &raft::eraftpb::ConfChangeSingle| {
            it.get_change_type() == ConfChangeType::RemoveNode && it.node_id == self.node.raft.id
        };
        !(self.committed_itself(index) && change.changes.iter().any(own))
    }

    /// Puts this member's own removal on stable storage, once other members know of it, so that
    /// the next start is refused.
    pub fn remember_own_removal(&mut self, index: u64) -> Result<(), Error> {
        self.remember_commit(index)
    }

    /// Notes in the library's log, at a leader that is not a member any more, that entries up to
    /// `last` are on stable storage. On its own the library would look for the leader among the
    /// members and panic; it does not look if the log has nothing new to note.
    pub(super) fn note_persisted_without_progress(&mut self, last: (u64, u64)) {
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Leader && raft.prs().get(raft.id).is_none() {
            raft.raft_log.maybe_persist(last.0, last.1);
        }
    }
}
