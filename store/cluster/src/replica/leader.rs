//! The leader: evaluates commands into batches and proposes each batch as an entry.
//!
//! ```text
//!   elected ──► catching_up: Some ──own first entry applied──► None (ready) ──► evaluates
//!                   other members' commands wait
//!
//!   command ──► open batch ──sealed──► in flight (requests.rs) ──► applied ──► answered
//!           └─► changes nothing ──► unconfirmed ──a round of reads──► answered
//! ```
//!
//! One batch is in flight at a time, and commands that arrive are evaluated into the
//! next one. So a burst of `n` commands costs about two flushes, whatever `n` is, and
//! a lone command costs one.
//!
//! Invariants: nothing is evaluated before the leader has applied its own term's first
//! entry. What has been evaluated and not proposed is lost with the leadership:
//! [`Leader::into_waiting`] names every requester that waits for it. A batch that was
//! proposed may still be committed by another leader, so it is not the leader's, but one of
//! the replica's [`Requests`].

use std::collections::{BTreeMap, VecDeque};

use environment::Instant;
use revisions::Command;

use super::answer::{Answer, Requester, leader_changed};
use super::append_round::AppendRound;
use super::held::HeldCommands;
use super::membership;
use super::replica_core::Core;
use super::requests::{InFlight, Requests};
use super::retries::{Asked, Retry};
use super::room::Room;
use crate::{EntryId, Error, Mutant};

/// All commands that wait for this leadership, and the leader's state; dropped with the role.
#[derive(Debug)]
pub(super) struct Leader {
    /// This member's own first entry, until it is applied here. Before that, this member may not
    /// have applied all entries of former leaders, and evaluates no commands.
    catching_up: Option<EntryId>,
    /// Answers of the open batch, in order of evaluation.
    pub open: Vec<Answer>,
    /// Commands that need no room, from batches that were refused for lack of room, in
    /// order. They are evaluated again.
    reevaluated: VecDeque<Answer>,
    /// Revocations of expired leases that wait for room in a batch.
    expirations: VecDeque<Command>,
    held: HeldCommands,
    /// Batches without changes, by the number of the read that confirms them.
    unconfirmed: BTreeMap<u64, UnconfirmedBatch>,
    pub append_round: AppendRound,
    /// The member to which leadership is handed once no evaluated command waits for the log.
    pub successor: Option<u64>,
}

/// The answers of one batch without changes. No entry is written for them.
///
/// Another member may lead by now and have committed newer entries. So the answers wait
/// for a round of reads that begins after the evaluation: a member that still leads then
/// had all committed entries when it evaluated the commands. If this member loses its
/// leadership, the answers are dropped: a client of this member gets `leader changed`, and a
/// follower proposes the command again to the new leader.
#[derive(Debug)]
struct UnconfirmedBatch {
    /// Index of the entry after which the commands were evaluated.
    index: u64,
    answers: Vec<Answer>,
}

/// The answers of a batch that was refused for lack of room, and the reason.
struct RefusedBatch {
    error: Error,
    answers: Vec<Answer>,
    /// The lack of room is a shortage of the system, which can end without an operator.
    is_shortage: bool,
}

impl Leader {
    /// A leader that has been elected, and has this entry as its term's first.
    pub fn new(first: EntryId) -> Leader {
        Leader {
            catching_up: Some(first),
            open: Vec::new(),
            reevaluated: VecDeque::new(),
            expirations: VecDeque::new(),
            held: HeldCommands::default(),
            unconfirmed: BTreeMap::new(),
            append_round: AppendRound::default(),
            successor: None,
        }
    }

    /// Everything that waits for this leadership and ends with it. The commands were not
    /// proposed, and never will be.
    pub fn into_waiting(self) -> Vec<Answer> {
        // Every field is named here, so that a new one cannot be forgotten.
        let Leader {
            catching_up: _,
            open,
            reevaluated,
            expirations: _,
            held,
            unconfirmed,
            append_round: _,
            successor: _,
        } = self;
        let evaluated = open.into_iter().chain(reevaluated);
        let waiting = evaluated.chain(held.into_answers());
        let unconfirmed = unconfirmed.into_values().flat_map(|batch| batch.answers);
        waiting.chain(unconfirmed).collect()
    }

    /// Whether this leader evaluates commands.
    pub fn is_ready(&self) -> bool {
        self.catching_up.is_none()
    }

    /// Notes that this member leads `term`, and that its log ends with entry `last`. It may
    /// have been elected again before it was ready.
    pub fn note_term(&mut self, term: u64, last: u64) {
        if let Some(first) = &mut self.catching_up
            && first.term != term
        {
            *first = EntryId { term, index: last };
        }
    }

    /// Begins to evaluate commands, once this term's first entry is applied.
    pub fn become_ready(&mut self, core: &mut Core) {
        if let Some(first) = self.catching_up
            && (core.engine().applied_index() >= first.index
                || core.breaks(Mutant::LeadsBeforeItsFirstEntry))
        {
            core.machine.promote(core.options.heartbeat_interval);
            self.catching_up = None;
            tracing::info!(term = core.raft().term, "this member leads");
        }
    }

    /// Whether the command can be evaluated now: the leader is ready, and its open batch has
    /// room.
    pub fn takes(&self, core: &Core, command: &Command) -> bool {
        self.is_ready()
            && !core.machine.batch_is_full()
            && !self.is_transferring(core)
            && (!command.changes_configuration() || self.takes_configuration_change(core))
    }

    /// Changes of the configuration are made one at a time, each in a batch of its own.
    fn takes_configuration_change(&self, core: &Core) -> bool {
        self.open.is_empty()
            && !core.machine.configuration_is_pending()
            && !core.raft().has_pending_conf()
    }

    /// Evaluates a command into the open batch. Returns false if it was refused.
    pub fn evaluate(
        &mut self,
        core: &mut Core,
        requests: &mut Requests,
        command: &Command,
        to: Requester,
    ) -> bool {
        let checked = membership::check_change(core, command);
        if checked.is_ok() && self.must_hand_over_before(core, command) {
            self.hand_over_before_removal(core, requests, command, to);
            return true;
        }
        let outcome = match checked {
            Ok(()) => {
                let own = matches!(to, Requester::Expiry | Requester::Internal);
                let evaluated = match own {
                    true => core.machine.evaluate_own(command),
                    false => core.machine.evaluate(command),
                };
                evaluated.map_err(Error::Refused)
            }
            Err(refusal) => Err(Error::Refused(refusal.into())),
        };
        let done = outcome.is_ok();
        let swept = match command.plain() {
            Command::Compact(compact) if compact.physical && done => Some(compact.revision),
            _ => None,
        };
        self.open.push(Answer {
            swept,
            roomless: command.needs_no_room().then(|| Box::new(command.clone())),
            ..Answer::new(to, outcome)
        });
        done
    }

    /// Takes a command of a follower: evaluates it, lets it wait, or refuses it.
    pub fn take_for_member(
        &mut self,
        core: &mut Core,
        requests: &mut Requests,
        to: Requester,
        command: &Command,
    ) {
        if self.held.is_empty() && self.takes(core, command) {
            self.evaluate(core, requests, command, to);
        } else if self.held.has_room() {
            self.held.push(to, command);
        } else {
            let refused = Error::Refused(etcd_api::Error::TooManyRequests.into());
            core.send_error(to, refused);
        }
    }

    /// Whether the first of the held commands can be evaluated now.
    fn takes_held(&self, core: &Core) -> bool {
        self.held
            .first()
            .is_some_and(|command| self.takes(core, command))
    }

    /// Evaluates other members' commands that had to wait, as far as there is room.
    pub fn evaluate_held(&mut self, core: &mut Core, requests: &mut Requests) {
        while self.takes_held(core)
            && let Some((to, command)) = self.held.pop()
        {
            self.evaluate(core, requests, &command, to);
        }
    }

    /// Queues the revocations of leases that have expired.
    pub fn expire_leases(&mut self, core: &mut Core, now: Instant) {
        if self.is_ready() && self.expirations.is_empty() {
            self.expirations.extend(core.machine.own_commands(now));
        }
    }

    /// Evaluates as many of the revocations as the open batch has room for. Together they
    /// may exceed the size of a batch.
    pub fn revoke_expired(&mut self, core: &mut Core, requests: &mut Requests) {
        while self.is_ready()
            && !self.is_transferring(core)
            && !core.machine.batch_is_full()
            && let Some(command) = self.expirations.pop_front()
        {
            self.evaluate(core, requests, &command, Requester::Expiry);
        }
    }

    /// Evaluates as many of the commands that need no room as the open batch can take.
    /// Without the refused commands they may make more changes than in their first batch.
    pub fn reevaluate(&mut self, core: &mut Core, requests: &mut Requests) {
        while self.is_ready()
            && !core.machine.batch_is_full()
            && let Some(answer) = self.reevaluated.pop_front()
        {
            let command = answer
                .roomless
                .expect("an answer that is evaluated again has a copy of its command");
            self.evaluate(core, requests, &command, answer.requester);
        }
    }

    /// Seals the open batch and proposes it, if no batch is in flight. If the log lacks
    /// room because of a shortage of the system, writes are refused until the shortage ends.
    /// If the index has reached its memory limit, this leader raises the alarm NOSPACE, as
    /// when the quota is used up, so that all members refuse writes until an operator
    /// disarms it.
    pub fn append(
        &mut self,
        core: &mut Core,
        requests: &mut Requests,
        room: &mut Room,
    ) -> Result<(), Error> {
        self.reevaluate(core, requests);
        self.revoke_expired(core, requests);
        let Some(refused) = self.append_open(core, requests, room)? else {
            return Ok(());
        };
        let error = refused.error;
        self.refuse(core, refused.answers, &error);
        if refused.is_shortage {
            if room.note_shortage(core, &error) {
                self.hand_over_to_equal(core);
            }
        } else {
            tracing::warn!(reason = %error, "writes are refused: raising the alarm NOSPACE");
            let alarm = Room::alarm(core.member_id);
            self.evaluate(core, requests, &alarm, Requester::Internal);
        }
        self.reevaluate(core, requests);
        // If the log has no room for this batch either, the batch fails, with the alarm if it
        // has one. The next refused batch raises the alarm again.
        if let Some(refused) = self.append_open(core, requests, room)? {
            core.fail_answers(refused.answers, &refused.error);
        }
        Ok(())
    }

    /// Refuses the commands of a batch for which the log has no room. Commands that need
    /// no room are set aside and evaluated again.
    pub fn refuse(&mut self, core: &mut Core, answers: Vec<Answer>, error: &Error) {
        let (roomless, refused): (Vec<_>, Vec<_>) = answers
            .into_iter()
            .partition(|answer| answer.roomless.is_some());
        // They were evaluated before the commands that earlier refusals have left.
        for answer in roomless.into_iter().rev() {
            self.reevaluated.push_front(answer);
        }
        core.fail_answers(refused, error);
    }

    /// Seals and proposes the open batch, if no batch is in flight; returns it if the log
    /// or the index has no room for it.
    fn append_open(
        &mut self,
        core: &mut Core,
        requests: &mut Requests,
        room: &mut Room,
    ) -> Result<Option<RefusedBatch>, Error> {
        if !self.is_ready() || self.open.is_empty() || core.has_unapplied() {
            return Ok(None);
        }
        if core.raft().lead_transferee.is_some() {
            return Ok(None);
        }
        let entry = core.consensus.next();
        let answers = std::mem::take(&mut self.open);
        let Some(batch) = core.machine.seal(entry.term, entry.index) else {
            self.answer_unchanged(core, requests, answers, entry.index - 1);
            return Ok(None);
        };
        let body = batch.encode()?;
        if let Err(error) = core.engine().check(&batch, &body) {
            let is_shortage = error.is_shortage();
            let no_room = is_shortage || matches!(error, engine::Error::MemoryLimit { .. });
            let error = Error::Refused(error.into());
            core.machine.abandon();
            if no_room {
                return Ok(Some(RefusedBatch {
                    error,
                    answers,
                    is_shortage,
                }));
            }
            core.fail_answers(answers, &error);
            return Ok(None);
        }
        room.note_room();
        let now = core.now();
        core.commit.proposed(core.committed(), now);
        requests.in_flight.push_back(InFlight {
            entry,
            answers,
            proposed: now,
            deadline: now + core.options.patience(),
        });
        core.consensus.propose(batch, body)?;
        self.append_round.proposed(entry);
        Ok(None)
    }

    /// Answers the commands of a batch that changes nothing and was evaluated after entry
    /// `index`: at once, or when a round of reads has confirmed that this member led then.
    fn answer_unchanged(
        &mut self,
        core: &mut Core,
        requests: &mut Requests,
        answers: Vec<Answer>,
        index: u64,
    ) {
        if self.is_alone(core) || core.breaks(Mutant::AnswersWithoutAnEntry) {
            // The commands wrote nothing and saw nothing that is not applied.
            core.give(answers, index);
        } else {
            let read = requests.reads.add_unchanged(core.deadline());
            let batch = UnconfirmedBatch { index, answers };
            self.unconfirmed.insert(read, batch);
        }
    }

    /// Whether this leader is ready and the only voter.
    fn is_alone(&self, core: &Core) -> bool {
        self.is_ready() && core.is_raft_leader() && core.is_only_voter()
    }

    /// Sends the answers that waited for this read, which is confirmed.
    pub fn confirm_unchanged(&mut self, core: &mut Core, read: u64) {
        if let Some(batch) = self.unconfirmed.remove(&read) {
            core.give(batch.answers, batch.index);
        }
    }

    /// Fails the answers that waited for this read, which was not confirmed in time.
    pub fn fail_unchanged(&mut self, core: &mut Core, read: u64, error: &Error) {
        if let Some(batch) = self.unconfirmed.remove(&read) {
            core.fail_answers(batch.answers, error);
        }
    }

    /// Whether a command waits to be evaluated for which the open batch has room: a
    /// revocation, a command that is evaluated again, or one of another member.
    pub fn has_commands_to_evaluate(&self, core: &Core) -> bool {
        let expirations = !self.expirations.is_empty() && !self.is_transferring(core);
        let waits = expirations || !self.reevaluated.is_empty();
        let fits = waits && !core.machine.batch_is_full();
        self.is_ready() && (fits || self.takes_held(core))
    }

    /// Whether no evaluated command would be dropped if leadership ended now.
    pub fn has_nothing_to_lose(&self) -> bool {
        self.open.is_empty() && self.reevaluated.is_empty() && self.unconfirmed.is_empty()
    }

    /// Whether this leader has to hand leadership over before the command is carried out: it
    /// is one of two voters and would remove itself. If the other one crashed before it wrote
    /// down that the removal is committed, it would need this member's vote to find out. So
    /// the other one has to lead and carry out the removal.
    pub fn must_hand_over_before(&self, core: &Core, command: &Command) -> bool {
        self.is_ready()
            && membership::removes_itself(core, command)
            && core.reader.members().voters().count() == 2
    }

    /// Handles a request that this leader remove itself when another member has to carry
    /// that out: hands leadership over. A local request waits and is tried again; a request
    /// of another member is refused, and that member tries again.
    fn hand_over_before_removal(
        &mut self,
        core: &mut Core,
        requests: &mut Requests,
        command: &Command,
        to: Requester,
    ) {
        self.hand_over(core);
        let retries = &mut requests.forwards.retries;
        let kept = match to {
            Requester::Member { .. } => None,
            _ => retries.keep(command),
        };
        match kept {
            Some(command) => retries.waiting.push_back(Retry {
                to,
                command,
                deadline: core.deadline(),
                asked: Asked::now(core),
            }),
            None => core.send_error(to, leader_changed()),
        }
    }

    /// Hands leadership to another voter, unless it is being handed over already: to the one
    /// with most of the log of those that sent a message lately.
    pub fn hand_over(&mut self, core: &Core) {
        self.hand_over_if(core, |_| true);
    }

    fn hand_over_if(&mut self, core: &Core, is_fit: impl FnOnce(&u64) -> bool) {
        if core.holds_leadership() && !self.is_transferring(core) {
            self.successor = membership::successor(core).filter(is_fit);
        }
    }

    /// Hands leadership to another voter that has the whole log, if there is one.
    fn hand_over_to_equal(&mut self, core: &Core) {
        let last = core.raft().raft_log.last_index();
        self.hand_over_if(core, |id| {
            let progress = core.raft().prs().get(*id);
            progress.is_some_and(|progress| progress.matched == last)
        });
    }

    /// Whether a transfer of leadership is under way. Commands wait until it has ended.
    pub fn is_transferring(&self, core: &Core) -> bool {
        self.transferee(core).is_some()
    }

    /// The member to which leadership is being handed.
    pub fn transferee(&self, core: &Core) -> Option<u64> {
        self.successor.or(core.raft().lead_transferee)
    }

    /// Asks the chosen successor to stand for election, once no evaluated command would be
    /// dropped.
    pub fn start_transfer(&mut self, core: &mut Core) {
        if self.has_nothing_to_lose()
            && let Some(to) = self.successor.take()
        {
            tracing::info!(to = format!("{to:x}"), "this member hands leadership over");
            core.consensus.node.transfer_leader(to);
        }
    }
}

#[cfg(test)]
impl Leader {
    /// Takes the answers of the open batch.
    pub fn take_open(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.open)
    }

    /// Whether commands wait to be evaluated again.
    pub fn has_reevaluated(&self) -> bool {
        !self.reevaluated.is_empty()
    }
}
