//! This member is a member no more.
//!
//! A follower that applies its own removal, or hears of it at another's door, ends
//! at once: its leader has it on stable storage that the removal is committed. A
//! leader stays a little: its followers have the entry, and may not know yet that
//! it is committed. Where one of them is left, it would need this member's vote to
//! find out. So the leader goes on until they know, and hands over. Where another
//! leads before that, it stays as a follower, until it is refused.

use environment::Instant;
use etcd_api::Error as Refusal;
use raft::StateRole;
use revisions::Command;

use super::Replica;
use crate::Error;

/// A leader that was removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// The entry that says so.
    index: u64,
    /// So long all are waited for.
    until: Instant,
}

impl Replica {
    /// One of two does not remove itself: the other would need its vote to find
    /// out that this is committed, should it crash before it has written so much
    /// down. The other shall lead, and do it; who asked is told to ask again.
    pub(super) fn hand_over_before_removal(&mut self, command: &Command) -> Result<(), Refusal> {
        let members = self.reader.members();
        let of_itself = matches!(command, Command::MemberRemove(it) if it.id == self.member_id);
        if !of_itself || members.voters().count() != 2 {
            return Ok(());
        }
        self.hand_over();
        Err(Refusal::LeaderChanged)
    }

    /// Another member says that this one was removed.
    pub fn told_of_removal(&mut self) {
        self.fail_removed();
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

    /// All that were heard of lately know that the entry is committed; or, where
    /// that takes too long, so many that they find a leader by themselves.
    fn enough_know(&self, Leaving { index, until }: Leaving) -> bool {
        let raft = self.consensus.raft();
        let knows = |id| {
            let progress = raft.prs().get(id);
            progress.is_some_and(|it| it.committed_index >= index)
        };
        let active = |id| raft.prs().get(id).is_some_and(|it| it.recent_active);
        let members = self.reader.members();
        let voters: Vec<u64> = members.voters().map(|voter| voter.id).collect();
        let knowing = voters.iter().filter(|&&id| knows(id)).count();
        let all = voters.iter().all(|&id| knows(id) || !active(id));
        knowing > voters.len() / 2 && (all || self.clock.now() >= until)
    }

    /// Ends, once the others know.
    pub(super) fn leave(&mut self) -> Result<(), Error> {
        let Some(leaving) = self.leaving else {
            return Ok(());
        };
        if self.consensus.raft().state != StateRole::Leader || !self.enough_know(leaving) {
            return Ok(());
        }
        if let Some(successor) = self.successor() {
            self.consensus.transfer(successor);
            self.settle()?;
        }
        self.fail_removed();
        Ok(())
    }
}
