//! Evaluates commands into batches and proposes each batch as an entry.
//!
//! One batch is under way at a time, and commands that arrive are evaluated into the
//! next one. So a burst of `n` commands costs about two flushes, whatever `n` is, and
//! a lone command costs one.

use environment::Instant;
use revisions::Command;

use super::{Answer, Asker, Lead, Replica};
use crate::{Error, Mutant};

/// A proposed batch and the answers that wait for it.
#[derive(Debug)]
pub(super) struct Sealed {
    pub index: u64,
    pub term: u64,
    pub answers: Vec<Answer>,
    pub proposed: Instant,
    pub deadline: Instant,
}

/// The answers of a batch that was refused for lack of room, and the reason.
struct Roomless {
    error: Error,
    answers: Vec<Answer>,
    /// The lack of room is a shortage of the system, which can end without an operator.
    is_shortage: bool,
}

impl Replica {
    /// Whether [`Replica::propose`] can take the command now: a leader is known, and if
    /// this member leads, its open batch has room. True also after a failure, when
    /// [`Replica::propose`] answers with the error.
    pub fn takes(&self, command: &Command) -> bool {
        if self.failed.is_some() {
            return true;
        }
        match self.lead {
            Lead::Ready => {
                !self.machine.batch_is_full()
                    && !self.is_transferring()
                    && (!command.changes_configuration() || self.takes_configuration_change())
            }
            Lead::Behind { .. } => false,
            Lead::No => self.leader != 0,
        }
    }

    /// Changes of the configuration are made one at a time, each in a batch of its own.
    fn takes_configuration_change(&self) -> bool {
        self.open.is_empty()
            && !self.machine.configuration_is_pending()
            && !self.consensus.raft().has_pending_conf()
    }

    /// Evaluates a command into the open batch, or forwards it to the leader. Returns false
    /// if it was refused at once.
    ///
    /// # Panics
    ///
    /// If [`Replica::takes`] returns false.
    pub fn propose(&mut self, command: &Command, to: Asker) -> bool {
        if let Some(error) = &self.failed {
            let answer = Answer::new(to, Err(error.clone()));
            self.output.answers.push(answer);
            return false;
        }
        assert!(
            self.takes(command),
            "the caller has asked `takes`, and this command cannot be taken now: {command:?}"
        );
        if self.lead == Lead::Ready {
            self.evaluate(command, to, false)
        } else if let Some(refused) = self.refusal_for_want_of_room(command) {
            self.send_answer(Answer::new(to, Err(refused)));
            false
        } else {
            self.forward(command, to);
            true
        }
    }

    pub(super) fn evaluate(&mut self, command: &Command, to: Asker, ends_lease: bool) -> bool {
        let checked = self.check_configuration_change(command);
        if checked.is_ok() && self.must_hand_over_before(command) {
            self.hand_over_before_removal(command, to);
            return true;
        }
        let outcome = match checked {
            Ok(()) => self.machine.evaluate(command).map_err(Error::Refused),
            Err(refusal) => Err(Error::Refused(refusal.into())),
        };
        let done = outcome.is_ok();
        let swept = match command {
            Command::Compact(compact) if compact.physical && done => Some(compact.revision),
            _ => None,
        };
        self.open.push(Answer {
            swept,
            roomless: command.needs_no_room().then(|| Box::new(command.clone())),
            ends_lease,
            ..Answer::new(to, outcome)
        });
        done
    }

    /// Queues the revocations of leases that have expired.
    pub(super) fn expire_leases(&mut self, now: Instant) {
        if self.lead == Lead::Ready && self.due.is_empty() {
            self.due.extend(self.machine.expired(now));
        }
    }

    /// Evaluates as many of the replica's own commands as the open batch has room for.
    /// Together they may exceed the size of a batch.
    pub(super) fn propose_due(&mut self) {
        while self.lead == Lead::Ready
            && !self.is_transferring()
            && !self.machine.batch_is_full()
            && let Some(command) = self.due.pop_front()
        {
            self.evaluate(&command, Asker::Internal, true);
        }
    }

    /// Seals the open batch and proposes it, if no batch is under way. If the log lacks
    /// room because of a shortage of the system, writes are refused until the shortage ends.
    /// If the index has reached its memory limit, this leader raises the alarm NOSPACE, as
    /// when the quota is used up, so that all members refuse writes until an operator
    /// disarms it.
    pub(super) fn append(&mut self) -> Result<(), Error> {
        self.propose_spared();
        self.propose_due();
        let Some(Roomless {
            error,
            answers,
            is_shortage,
        }) = self.append_open()?
        else {
            return Ok(());
        };
        self.refuse(answers, &error);
        if is_shortage {
            self.note_shortage(&error);
        } else {
            tracing::warn!(reason = %error, "writes are refused: raising the alarm NOSPACE");
            self.evaluate(&self.no_space_alarm(), Asker::Internal, false);
        }
        self.propose_spared();
        // If the log has no room for this batch either, the batch fails, with the alarm if it
        // has one. The next refused batch raises the alarm again.
        if let Some(Roomless { error, answers, .. }) = self.append_open()? {
            self.fail_answers(answers, &error);
        }
        Ok(())
    }

    /// Refuses the commands of a batch for which the log has no room. Commands that need
    /// no room are set aside and evaluated again.
    pub(super) fn refuse(&mut self, answers: Vec<Answer>, error: &Error) {
        let (spared, refused): (Vec<_>, Vec<_>) = answers
            .into_iter()
            .partition(|answer| answer.roomless.is_some());
        // They were evaluated before the commands that earlier refusals have left.
        for answer in spared.into_iter().rev() {
            self.spared.push_front(answer);
        }
        self.fail_answers(refused, error);
    }

    /// Evaluates as many of the commands that need no room as the open batch can take.
    /// Without the refused commands they may make more changes than in their first batch.
    pub fn propose_spared(&mut self) {
        while self.lead == Lead::Ready
            && !self.machine.batch_is_full()
            && let Some(answer) = self.spared.pop_front()
        {
            let command = answer
                .roomless
                .expect("a spared answer has a copy of its command");
            self.evaluate(&command, answer.to, answer.ends_lease);
        }
    }

    /// Seals and proposes the open batch, if no batch is under way; returns it if the log
    /// or the index has no room for it.
    fn append_open(&mut self) -> Result<Option<Roomless>, Error> {
        if self.lead != Lead::Ready || self.open.is_empty() || self.has_unapplied() {
            return Ok(None);
        }
        if self.consensus.raft().lead_transferee.is_some() {
            return Ok(None);
        }
        let (term, index) = self.consensus.next();
        let answers = std::mem::take(&mut self.open);
        let batch = match self.machine.seal(term, index) {
            Some(batch) => batch,
            None if self.leads_alone() || self.breaks(Mutant::AnswersWithoutAnEntry) => {
                // The commands wrote nothing and saw nothing that is not applied.
                self.give(answers, index - 1);
                return Ok(None);
            }
            None => {
                self.confirm_unchanged(answers, index - 1);
                return Ok(None);
            }
        };
        let body = batch.encode()?;
        if let Err(error) = self.engine.check(&batch, &body) {
            let is_shortage = error.is_shortage();
            let no_room = is_shortage || matches!(error, engine::Error::MemoryLimit { .. });
            let error = Error::Refused(error.into());
            self.machine.abandon();
            if no_room {
                return Ok(Some(Roomless {
                    error,
                    answers,
                    is_shortage,
                }));
            }
            self.fail_answers(answers, &error);
            return Ok(None);
        }
        self.note_room();
        let now = self.clock.now();
        self.commit.proposed(self.committed(), now);
        self.sealed.push_back(Sealed {
            index,
            term,
            answers,
            proposed: now,
            deadline: now + self.patience,
        });
        self.consensus.propose(batch, body)?;
        self.append_round.proposed((term, index));
        Ok(None)
    }

    /// Whether the log has entries that are not applied yet.
    fn has_unapplied(&self) -> bool {
        let (_, next) = self.consensus.next();
        self.engine.applied_index() + 1 < next
    }

    /// Whether no command waits here or at the leader: none is in the open batch, sealed,
    /// to be evaluated again, waiting for confirmation, forwarded or to be tried again.
    pub fn is_idle(&self) -> bool {
        let here = self.open.is_empty() && self.sealed.is_empty() && self.spared.is_empty();
        here && self.unchanged.is_empty() && self.forwarded.is_empty() && self.again.is_empty()
    }

    /// Whether a command waits to be evaluated for which the open batch has room: one of
    /// the replica's own, one that is evaluated again, or one that another member forwarded.
    pub fn has_spared(&self) -> bool {
        let due = !self.due.is_empty() && !self.is_transferring();
        let waits = due || !self.spared.is_empty();
        let fits = waits && !self.machine.batch_is_full();
        self.lead == Lead::Ready && (fits || self.takes_held())
    }

    /// Whether no command was evaluated since the last batch was sealed.
    pub fn open_is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
