//! This member is a member no more.
//!
//! A follower that applies its own removal, or hears of it at another's door, ends
//! at once: its leader has it on stable storage that the removal is committed. A
//! leader stays a little: its followers have the entry, and may not know yet that
//! it is committed. Where one of them is left, it would need this member's vote to
//! find out. So the leader goes on until they know, and hands over. Where it has lost
//! the lead before that, it stays as a follower, until it is refused.
//!
//! Whoever tells this member of its removal has on stable storage that it is committed,
//! so nobody will need this member's vote to find that out. This member notes it beside
//! its log, which may never say so, and does not start again.
//!
//! Who asked this member for its removal is told that it is done, before it ends; so is
//! who asked a follower for the removal of its leader.

use environment::Instant;
use etcd_api::etcdserverpb::{MemberRemoveResponse, ResponseHeader};
use raft::StateRole;
use revisions::{Command, Response};

use super::{Answer, Lead, Replica};
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
    /// down. The other shall lead, and do it.
    pub(super) fn must_hand_over_before(&self, command: &Command) -> bool {
        self.lead == Lead::Ready
            && self.removes_itself(command)
            && self.reader.members().voters().count() == 2
    }

    pub(super) fn removes_itself(&self, command: &Command) -> bool {
        matches!(command, Command::MemberRemove(it) if it.id == self.member_id)
    }

    /// What the leader has done for this member's askers, and nobody will tell this
    /// member any more.
    fn answer_what_is_done(&mut self) {
        let own = self.member_id;
        self.answer_removals(|removed, _| removed == own);
        for answer in self.forwarded.take_waiting() {
            self.send_answer(answer);
        }
    }

    /// A leader that was removed may be turned away before its answer is read: whoever
    /// asked for its removal sees here that it is done.
    fn answer_for_removed_leaders(&mut self) {
        let members = self.reader.members();
        self.answer_removals(|removed, leader| removed == leader && members.get(removed).is_none());
    }

    /// Answers those who have asked for such removals, as their leader would.
    fn answer_removals(&mut self, is_done: impl Fn(u64, u64) -> bool) {
        let members = self.reader.members();
        for (to, removed) in self.take_removals(is_done) {
            let others = members.to_messages().into_iter();
            let response = MemberRemoveResponse {
                header: Some(ResponseHeader::default()),
                members: others.filter(|it| it.id != removed).collect(),
            };
            self.send_answer(Answer::new(to, Ok(Response::MemberRemove(response))));
        }
    }

    /// Another member says that this one was removed.
    pub fn told_of_removal(&mut self) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = self.removal_file.keep(self.member_id) {
            tracing::warn!(%error, "the removal cannot be noted: the next start will find out anew");
        }
        self.fail_removed();
    }

    fn fail_removed(&mut self) {
        if self.failed.is_none() {
            if let Some(leaving) = self.leaving
                && let Err(error) = self.consensus.remember_own_removal(leaving.index)
            {
                tracing::warn!(%error, "the removal cannot be noted: the next start will find out anew");
            }
            tracing::warn!("this member was removed from its cluster");
            self.leader = 0;
            self.answer_what_is_done();
            self.fail(Error::Removed {
                member: self.member_id,
            });
        }
    }

    /// The configuration has changed with this entry.
    pub(super) fn look_for_removals(&mut self, index: u64) {
        self.answer_for_removed_leaders();
        if self.leaving.is_some() || !self.reader.is_removed(self.member_id) {
            return;
        }
        if !self.consensus.committed_itself(index) {
            self.fail_removed();
            return;
        }
        if self.consensus.raft().state == StateRole::Leader {
            self.step_down();
        }
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
        let members = self.reader.members();
        let voters: Vec<u64> = members.voters().map(|voter| voter.id).collect();
        let knowing = voters.iter().filter(|&&id| knows(id)).count();
        let all = voters.iter().all(|&id| knows(id) || !self.hears(id));
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
