//! How a member ends that was removed from its cluster.
//!
//! A follower that applies its own removal, or learns of it when another member refuses
//! its connection, ends at once: its leader has on stable storage that the removal is
//! committed. A leader stays for a while: its followers have the entry, but may not know
//! yet that it is committed, and if only one of them is left, it would need this member's
//! vote to find out. So the leader continues until they know, and then hands leadership
//! over. If it loses its leadership before that, it stays as a follower until another
//! member refuses it.
//!
//! A member that informs this one of its removal has on stable storage that the removal is
//! committed, so no member needs this one's vote to find that out. This member records its
//! removal in a file beside its log, which may never contain it, and does not start again.
//!
//! Before this member ends, it answers clients that asked it for its own removal; and a
//! follower answers clients that asked it for the removal of its leader.

use environment::Instant;
use etcd_api::etcdserverpb::{MemberRemoveResponse, ResponseHeader};
use raft::StateRole;
use revisions::{Command, Response};

use super::{Answer, Lead, Replica};
use crate::Error;

const NOT_RECORDED: &str = "this member cannot record its removal on disk: it will find out \
    from another member after its next start";

/// The state of a leader that was removed and has not ended yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// Index of the entry that removes this member.
    index: u64,
    /// Until then this member waits for all healthy voters, afterwards for a majority only.
    until: Instant,
}

impl Replica {
    /// Whether this leader has to hand leadership over before the command is carried out: it
    /// is one of two voters and would remove itself. If the other one crashed before it wrote
    /// down that the removal is committed, it would need this member's vote to find out. So
    /// the other one has to lead and carry out the removal.
    pub(super) fn must_hand_over_before(&self, command: &Command) -> bool {
        self.lead == Lead::Ready
            && self.removes_itself(command)
            && self.reader.members().voters().count() == 2
    }

    pub(super) fn removes_itself(&self, command: &Command) -> bool {
        matches!(command, Command::MemberRemove(it) if it.id == self.member_id)
    }

    /// Gives this member's clients the outcomes that are known when it ends: its own removal,
    /// and the leader's answers that wait for an entry.
    fn answer_known_outcomes(&mut self) {
        let own = self.member_id;
        self.answer_removals(|removed, _| removed == own);
        for answer in self.forwarded.take_waiting() {
            self.send_answer(answer);
        }
    }

    /// Answers local clients that asked for the removal of a leader that is removed by now.
    /// Connections to a removed member are closed, perhaps before its answer is read.
    fn answer_for_removed_leaders(&mut self) {
        let members = self.reader.members();
        self.answer_removals(|removed, leader| removed == leader && members.get(removed).is_none());
    }

    /// Answers the forwarded removals that are done, as their leader would.
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

    /// Ends this member because another member says that it was removed.
    pub fn told_of_removal(&mut self) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = self.removal_file.keep(self.member_id) {
            tracing::warn!(%error, "{NOT_RECORDED}");
        }
        self.fail_removed();
    }

    fn fail_removed(&mut self) {
        if self.failed.is_none() {
            if let Some(leaving) = self.leaving
                && let Err(error) = self.consensus.remember_own_removal(leaving.index)
            {
                tracing::warn!(%error, "{NOT_RECORDED}");
            }
            tracing::warn!("this member was removed from its cluster");
            self.leader = 0;
            self.answer_known_outcomes();
            self.fail(Error::Removed {
                member: self.member_id,
            });
        }
    }

    /// Checks whether the change of configuration in entry `index` has removed this member,
    /// or the leader that a local client wanted to remove.
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

    /// Whether enough voters know that the entry is committed: a majority, and all that sent
    /// a message lately; or only a majority, once the wait has taken too long.
    fn enough_voters_know(&self, Leaving { index, until }: Leaving) -> bool {
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

    /// Hands leadership over and ends this removed leader, once the other members know of
    /// its removal.
    pub(super) fn leave(&mut self) -> Result<(), Error> {
        let Some(leaving) = self.leaving else {
            return Ok(());
        };
        if self.consensus.raft().state != StateRole::Leader || !self.enough_voters_know(leaving) {
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
