//! Transfers leadership to another member.
//!
//! ```text
//!   leads ──wanted──► evaluated commands go to the log ──► other asked to stand ──► other leads
//!     ▲                                                          │
//!     └────────── other does not lead within an election timeout ┘
//! ```
//!
//! During a transfer commands wait: if they were evaluated here, they would be dropped
//! when this member's leadership ends.

use environment::Instant;
use etcd_api::Error as Refusal;
use raft::StateRole;
use tokio::sync::oneshot;

use super::{Lead, Replica, apply};
use crate::Error;

type Sender = oneshot::Sender<Result<(), Error>>;

/// A caller that waits until member `to` leads.
#[derive(Debug)]
struct Waiting {
    to: u64,
    answer: Sender,
    deadline: Instant,
}

/// The transfer of leadership that is under way, if any, and the callers that wait for it.
#[derive(Debug, Default)]
pub(super) struct Transfer {
    /// The member to which leadership is handed once no evaluated command waits for the log.
    wanted: Option<u64>,
    waiting: Vec<Waiting>,
}

impl Transfer {
    /// Drops the transfer, because this member has lost its leadership.
    pub fn forget(&mut self) {
        self.wanted = None;
    }

    pub fn take_waiting(&mut self) -> impl Iterator<Item = Sender> + use<> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|waiting| waiting.answer)
    }
}

impl Replica {
    /// Hands leadership to member `to`, and answers when that member leads or the transfer has
    /// failed.
    pub fn move_lead(&mut self, to: u64, answer: oneshot::Sender<Result<(), Error>>) {
        let outcome = match &self.failed {
            Some(error) => Some(Err(error.clone())),
            None => self.check_transferee(to),
        };
        if let Some(outcome) = outcome {
            self.output.moves.push((answer, outcome));
            return;
        }
        self.transfer.wanted = Some(to);
        self.transfer.waiting.push(Waiting {
            to,
            answer,
            deadline: self.clock.now() + self.patience,
        });
    }

    /// The outcome of a transfer that needs no wait: it is refused, or `to` leads already.
    fn check_transferee(&self, to: u64) -> Option<Result<(), Error>> {
        let refused = |refusal: Refusal| Some(Err(Error::Refused(refusal.into())));
        let members = self.reader.members();
        let votes = members.voters().any(|voter| voter.id == to);
        if !self.holds_the_lead() {
            refused(Refusal::NotLeader)
        } else if !votes {
            refused(Refusal::BadLeaderTransferee)
        } else {
            (to == self.member_id).then_some(Ok(()))
        }
    }

    /// Whether this member is Raft's leader, even if it does not evaluate commands yet.
    pub fn holds_the_lead(&self) -> bool {
        self.failed.is_none() && self.consensus.raft().state == StateRole::Leader
    }

    /// Begins to hand leadership to another voter, before this member stops: to the one with
    /// most of the log of those that sent a message lately. To be called until
    /// [`Replica::is_handed_over`] is true.
    pub fn hand_over(&mut self) {
        if !self.holds_the_lead() || self.is_transferring() {
            return;
        }
        self.transfer.wanted = self.successor();
    }

    /// Hands leadership to another voter that has the whole log, if there is one.
    pub(super) fn hand_over_to_equal(&mut self) {
        let log = &self.consensus.raft().raft_log;
        let last = log.last_index();
        let has_all = |id: &u64| {
            let progress = self.consensus.raft().prs().get(*id);
            progress.is_some_and(|progress| progress.matched == last)
        };
        if self.holds_the_lead() && !self.is_transferring() {
            self.transfer.wanted = self.successor().filter(has_all);
        }
    }

    /// The other voter that has most of the log, of those that sent a message lately.
    pub(super) fn successor(&self) -> Option<u64> {
        let members = self.reader.members();
        let others = members.voters().filter(|voter| voter.id != self.member_id);
        let prs = self.consensus.raft().prs();
        let heard = others.filter_map(|voter| {
            let progress = prs.get(voter.id).filter(|_| self.hears(voter.id))?;
            Some((progress.matched, voter.id))
        });
        heard.max().map(|(_, id)| id)
    }

    /// Whether another member leads, or this one cannot hand leadership over: it is the only
    /// voter or has failed.
    pub fn is_handed_over(&self) -> bool {
        let raft = self.consensus.raft();
        self.failed.is_some()
            || raft.prs().is_singleton()
            || (raft.leader_id != 0 && raft.leader_id != self.member_id)
    }

    /// Whether a transfer of leadership is under way. Commands wait until it has ended.
    pub(super) fn is_transferring(&self) -> bool {
        self.transferee().is_some()
    }

    fn transferee(&self) -> Option<u64> {
        self.transfer
            .wanted
            .or(self.consensus.raft().lead_transferee)
    }

    /// Asks the wanted member to stand for election, once no evaluated command would be
    /// dropped.
    pub(super) fn start_transfer(&mut self) {
        if self.lead != Lead::No
            && self.open.is_empty()
            && self.spared.is_empty()
            && self.unchanged.is_empty()
            && let Some(to) = self.transfer.wanted.take()
        {
            tracing::info!(to = format!("{to:x}"), "this member hands leadership over");
            self.consensus.transfer(to);
        }
    }

    /// Answers callers when their transfer has succeeded or failed.
    pub(super) fn answer_transfers(&mut self) {
        if self.transfer.waiting.is_empty() {
            return;
        }
        let transferee = self.transferee();
        let (leads, leader) = (self.holds_the_lead(), self.leader);
        let over = |waiting: &mut Waiting| match leads {
            true => transferee != Some(waiting.to),
            false => leader != 0 && leader != self.member_id,
        };
        let over: Vec<Waiting> = self.transfer.waiting.extract_if(.., over).collect();
        for waiting in over {
            let outcome = if leads {
                Err(Error::Refused(Refusal::Timeout.into()))
            } else if leader == waiting.to {
                Ok(())
            } else {
                Err(apply::changed())
            };
            self.output.moves.push((waiting.answer, outcome));
        }
    }

    /// Answers callers that have waited too long with a timeout.
    pub(super) fn give_up_transfers(&mut self, now: Instant) {
        let late = |waiting: &mut Waiting| now >= waiting.deadline;
        for waiting in self.transfer.waiting.extract_if(.., late) {
            let timeout = Error::Refused(Refusal::Timeout.into());
            self.output.moves.push((waiting.answer, Err(timeout)));
        }
    }
}
