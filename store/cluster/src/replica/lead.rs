//! This member's leadership: how it begins and ends, and what it decides as a leader.
//!
//! ```text
//!   No ──elected──► Behind ──own first entry applied──► Ready
//!    ▲                 │                                  │
//!    └─────────────────┴──────── another leads ◄──────────┘
//! ```

use etcd_api::Error as Refusal;
use raft::StateRole;
use raft::eraftpb::ConfState;
use revisions::{Command, Members};

use super::{Replica, apply};
use crate::peer_message::PeerMessage;
use crate::{Error, Mutant, ReadAsker};

/// Whether this member leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Another member leads, or none.
    No,
    /// Elected, but this member has not applied its own first entry, at `until`, and so
    /// may not have applied all entries of former leaders.
    Behind { term: u64, until: u64 },
    /// This member leads and evaluates commands.
    Ready,
}

/// This member's id: the only one in the directory, if a member began it alone, and
/// otherwise `id`. Fails if the member was removed.
pub(super) fn own_id(id: u64, members: &Members) -> Result<u64, Error> {
    if members.is_removed(id) {
        return Err(Error::Removed { member: id });
    }
    let mut all = members.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only.id),
        _ => Ok(id),
    }
}

/// The members as Raft represents them, as voters and learners.
pub(super) fn configuration(members: &Members) -> ConfState {
    let mut state = ConfState::default();
    for member in members.iter() {
        if member.is_learner {
            state.learners.push(member.id);
        } else {
            state.voters.push(member.id);
        }
    }
    state
}

impl Replica {
    /// Stands for election at once if this member is the only voter.
    pub(super) fn stand_if_alone(&mut self) -> Result<(), Error> {
        let members = self.reader.members();
        if members.voters().map(|voter| voter.id).eq([self.member_id]) {
            self.consensus.campaign()?;
        }
        Ok(())
    }

    /// Whether this member is the only voter.
    pub fn stands_alone(&self) -> bool {
        let raft = self.consensus.raft();
        raft.promotable() && raft.prs().is_singleton()
    }

    /// Whether this member leads and is the only voter. Then everything that was ever
    /// acknowledged is applied here.
    pub fn leads_alone(&self) -> bool {
        self.leads() && self.consensus.raft().prs().is_singleton()
    }

    /// Takes over from Raft which member leads, and acts on a change.
    pub(super) fn observe_lead(&mut self) {
        let raft = self.consensus.raft();
        let stays = self.leaving.is_none();
        let (leads, term) = (stays && raft.state == StateRole::Leader, raft.term);
        let leader = if stays { raft.leader_id } else { 0 };
        let last = raft.raft_log.last_index();
        match self.lead {
            Lead::No if leads => self.lead = Lead::Behind { term, until: last },
            Lead::Behind { term: then, .. } if leads && then != term => {
                self.lead = Lead::Behind { term, until: last };
            }
            Lead::Behind { .. } | Lead::Ready if !leads => self.step_down(),
            _ => {}
        }
        if let Lead::Behind { until, .. } = self.lead
            && (self.engine.applied_index() >= until
                || self.breaks(Mutant::LeadsBeforeItsFirstEntry))
        {
            self.machine.promote(self.heartbeat_interval);
            self.lead = Lead::Ready;
            tracing::info!(term, "this member leads");
        }
        if leader != self.leader {
            self.leader = leader;
            self.reads.restart();
            self.doubt_forwarded();
            self.lease_questions.restart();
        }
        self.answer_transfers();
    }

    /// Ends this member's leadership. Commands that were not proposed are dropped and
    /// answered so. Batches that were proposed may still be committed, and are answered when
    /// that is known.
    pub(super) fn step_down(&mut self) {
        self.lead = Lead::No;
        // This must precede any vote of this member for another.
        self.rounds.withdraw();
        self.machine.demote();
        self.due.clear();
        self.transfer.forget();
        let open = std::mem::take(&mut self.open);
        let spared = std::mem::take(&mut self.spared);
        let held = self.held.take_all();
        let unchanged = self.unchanged.take_all();
        let dropped = open.into_iter().chain(spared).chain(held).chain(unchanged);
        let dropped = dropped.collect();
        self.fail_answers(dropped, &apply::changed());
    }

    /// Starts a round of reads, if reads wait and a leader is known.
    pub(super) fn start_reads(&mut self) {
        let fresh = self.append_round.take_fresh();
        let ready = self.lead == Lead::Ready;
        let other = self.leader != 0 && self.leader != self.member_id;
        if !ready && !other {
            return;
        }
        if self.reads.is_idle() {
            return;
        }
        if let Some(round) = self.reads.start_round(self.clock.now()) {
            if ready && self.may_read() {
                self.reads.confirm(round, self.committed());
            } else if ready && let Some(place) = fresh {
                self.append_round.start(round, place);
            } else if ready {
                self.consensus.read_index(round);
            } else {
                let message = PeerMessage::ReadIndex { round };
                self.output.messages.push((self.leader, message));
            }
        }
    }

    /// Whether this leader may serve reads without asking the other members.
    fn may_read(&self) -> bool {
        self.holds_read_lease() || self.breaks(Mutant::ReadsWithoutConfirmation)
    }

    /// Answers every request that has reached its time limit.
    pub(super) fn give_up(&mut self, now: environment::Instant) {
        let timeout = || Error::Refused(Refusal::Timeout.into());
        self.tend_lease_questions(now);
        self.give_up_transfers(now);
        for asker in self.reads.take_late(now) {
            match asker {
                ReadAsker::Local(_) => self.output.reads.push((asker, Err(timeout()))),
                ReadAsker::Unchanged(number) => self.fail_unchanged(number, &timeout()),
                // The member or the question has a deadline of its own.
                ReadAsker::Member { .. } | ReadAsker::Lease(_) => {}
            }
        }
        self.give_up_forwarded(now);
        self.give_up_trying(now);
        // The outcome of these is unknown: this member lost its leadership, or the majority
        // does not answer.
        let mut late = Vec::new();
        for sealed in &mut self.sealed {
            if now >= sealed.deadline {
                late.append(&mut sealed.answers);
            }
        }
        self.fail_answers(late, &apply::lost());
    }

    /// Checks that the cluster can bear a change of its members (etcd's strict
    /// reconfiguration check). A member that waits for its first snapshot does not count as
    /// started: it cannot confirm any entry.
    pub(super) fn check_configuration_change(&self, command: &Command) -> Result<(), Refusal> {
        if !command.changes_configuration() {
            return Ok(());
        }
        let progress = self.consensus.raft().prs();
        let holds_entries = |id| progress.get(id).is_some_and(|it| it.matched > 0);
        let active = |id| id == self.member_id || (self.hears(id) && holds_entries(id));
        let members = self.reader.members();
        let voters: Vec<u64> = members.voters().map(|voter| voter.id).collect();
        let started = voters.iter().filter(|&&id| active(id)).count();
        match command {
            Command::MemberAdd(_) | Command::MemberRemove(_) if !self.strict_reconfiguration => {
                Ok(())
            }
            Command::MemberAdd(request) if !request.is_learner => {
                let enough = started > voters.len().div_ceil(2) || voters.len() == 1;
                enough.then_some(()).ok_or(Refusal::Unhealthy)
            }
            Command::MemberRemove(request) if voters.contains(&request.id) => {
                let left = voters.len() - 1;
                let active_left = started - usize::from(active(request.id));
                let enough = left == 0 || active_left > left / 2;
                enough.then_some(()).ok_or(Refusal::Unhealthy)
            }
            Command::MemberPromote(request) => self.check_learner(request.id),
            _ => Ok(()),
        }
    }

    /// Checks that a learner has enough entries to become a voter: 90 % of the leader's, as
    /// in etcd.
    fn check_learner(&self, id: u64) -> Result<(), Refusal> {
        let raft = self.consensus.raft();
        let Some(progress) = raft.prs().get(id) else {
            return Ok(());
        };
        let last = raft.raft_log.last_index();
        if progress.matched * 10 >= last * 9 {
            Ok(())
        } else {
            Err(Refusal::LearnerNotReady)
        }
    }

    pub fn term(&self) -> u64 {
        self.consensus.raft().term
    }

    pub fn member_id(&self) -> u64 {
        self.member_id
    }

    /// Id of the leader, as far as this member knows; 0 if it knows of none.
    pub fn leader(&self) -> u64 {
        self.leader
    }

    /// Whether this member leads and evaluates commands.
    pub fn leads(&self) -> bool {
        self.lead == Lead::Ready && self.consensus.raft().state == StateRole::Leader
    }

    /// Index of the last entry in the log.
    pub fn index(&self) -> u64 {
        self.consensus.raft().raft_log.last_index()
    }

    /// Index of the last entry that is applied.
    pub fn applied_index(&self) -> u64 {
        self.engine.applied_index()
    }

    /// Number of leases that this leader ended because they were not renewed, since the start.
    pub fn leases_expired(&self) -> u64 {
        self.leases_expired
    }
}
