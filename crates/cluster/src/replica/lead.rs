//! Who leads, and what that changes here.
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

/// This member's part in leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Another leads, or nobody.
    No,
    /// Elected, but entries of former leaders may not be applied yet.
    Behind { term: u64, until: u64 },
    /// Commands are evaluated here.
    Ready,
}

/// Who this member is. A directory that one member began alone knows best.
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

/// Raft's words for who votes and who learns.
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
    /// Alone in the cluster there is nobody to ask.
    pub(super) fn stand_if_alone(&mut self) -> Result<(), Error> {
        let members = self.reader.members();
        if members.voters().map(|voter| voter.id).eq([self.member_id]) {
            self.consensus.campaign()?;
        }
        Ok(())
    }

    /// This member is the only one with a vote.
    pub fn stands_alone(&self) -> bool {
        let raft = self.consensus.raft();
        raft.promotable() && raft.prs().is_singleton()
    }

    /// This member leads, and nobody else has a vote: what it has applied is all
    /// that was ever acknowledged.
    pub fn leads_alone(&self) -> bool {
        self.leads() && self.consensus.raft().prs().is_singleton()
    }

    /// Looks who leads now.
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
        self.tell_of_transfers();
    }

    /// What was evaluated and not proposed is dropped; what was proposed may
    /// still be committed, and is answered when that is known.
    pub(super) fn step_down(&mut self) {
        self.lead = Lead::No;
        // Before this member's vote for another can leave.
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

    /// Starts a round of reads, if one is due and there is somebody to ask.
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

    /// Nobody need be asked whether this member leads.
    fn may_read(&self) -> bool {
        self.holds_read_lease() || self.breaks(Mutant::ReadsWithoutConfirmation)
    }

    /// Nobody waits for ever.
    pub(super) fn give_up(&mut self, now: environment::Instant) {
        let timeout = || Error::Refused(Refusal::Timeout.into());
        self.tend_lease_questions(now);
        self.give_up_transfers(now);
        for asker in self.reads.take_late(now) {
            match asker {
                ReadAsker::Local(_) => self.output.reads.push((asker, Err(timeout()))),
                ReadAsker::Unchanged(number) => self.fail_unchanged(number, &timeout()),
                // They have deadlines of their own.
                ReadAsker::Member { .. } | ReadAsker::Lease(_) => {}
            }
        }
        self.give_up_forwarded(now);
        self.give_up_trying(now);
        // Their outcome is not known: the lead was lost, or the majority is gone.
        let mut late = Vec::new();
        for sealed in &mut self.sealed {
            if now >= sealed.deadline {
                late.append(&mut sealed.answers);
            }
        }
        self.fail_answers(late, &apply::lost());
    }

    /// Whether the cluster can bear a change of its members (etcd's strict
    /// reconfiguration check). Who waits for its first snapshot does not count as
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

    /// A learner may vote once it has nearly all the leader has (etcd: 90 %).
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

    /// Term, leader, and how far the log goes.
    pub fn term(&self) -> u64 {
        self.consensus.raft().term
    }

    /// Who this is.
    pub fn member_id(&self) -> u64 {
        self.member_id
    }

    /// Who leads, as far as this member knows; 0: nobody.
    pub fn leader(&self) -> u64 {
        self.leader
    }

    /// Whether commands are evaluated here.
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

    /// Leases that were ended because nobody renewed them.
    pub fn leases_expired(&self) -> u64 {
        self.leases_expired
    }
}
