//! Applies committed entries and releases the answers that waited for them.

use super::{Answer, Asker, Replica};
use crate::peer_message::{PeerMessage, for_others};
use crate::raft::consensus::Pending;
use crate::{Error, Mutant, ReadAsker};

impl Replica {
    pub(super) fn apply(&mut self, pending: Pending) -> Result<(), Error> {
        let (term, index) = (pending.batch.term, pending.batch.index);
        let body = match pending.changes_configuration {
            true => Some(self.consensus.body(index)?),
            false => None,
        };
        self.alarming.has_written |= pending.batch.keys().any(|change| !change.tombstone);
        if !self.breaks(Mutant::SkipsAnEntry) || index % 64 != 0 {
            self.machine.apply(pending.batch, pending.appended);
        }
        self.consensus.applied(index, body.as_ref())?;
        if body.is_some() {
            self.rounds.restart(self.clock.now());
        }
        while self
            .sealed
            .front()
            .is_some_and(|sealed| sealed.index <= index)
        {
            let sealed = self.sealed.pop_front().expect("just seen");
            if (sealed.index, sealed.term) == (index, term) {
                self.own_entry_applied((term, index), sealed.proposed);
                self.give(sealed.answers, index);
            } else {
                // Another leader's entry stands in its place.
                self.fail_answers(sealed.answers, &changed());
            }
        }
        self.release_forwarded(index);
        if body.is_some() {
            self.look_for_removals(index);
        }
        Ok(())
    }

    /// Sends the answers of commands that are applied with entry `index`. Answers of
    /// physical compactions wait until their sweep is done.
    pub(super) fn give(&mut self, answers: Vec<Answer>, index: u64) {
        let swept = self.machine.swept();
        for mut answer in answers {
            answer.index = index;
            let ended = answer.ends_lease && answer.outcome.is_ok();
            self.leases_expired += u64::from(ended);
            if answer.swept.is_none_or(|at| at <= swept) {
                self.send_answer(answer);
            } else {
                self.unswept.push(answer);
            }
        }
    }

    /// Sends the answers of physical compactions that are swept.
    pub(super) fn release_swept(&mut self) {
        let swept = self.machine.swept();
        let due = |answer: &mut Answer| answer.swept.is_none_or(|at| at <= swept);
        let due: Vec<Answer> = self.unswept.extract_if(.., due).collect();
        due.into_iter().for_each(|answer| self.send_answer(answer));
    }

    /// Sends the answers of all other physical compactions when the member stops. The next
    /// start finishes their sweeps.
    pub fn release_never_swept(&mut self) {
        let unswept = std::mem::take(&mut self.unswept);
        unswept
            .into_iter()
            .for_each(|answer| self.send_answer(answer));
    }

    pub(super) fn fail_answers(&mut self, answers: Vec<Answer>, error: &Error) {
        for answer in answers {
            self.send_answer(answer.failed(error));
        }
    }

    pub(super) fn send_answer(&mut self, answer: Answer) {
        match answer.to {
            Asker::Member { member, number } => {
                let outcome = Box::new(answer.outcome.map_err(for_others));
                let message = PeerMessage::Answer {
                    number,
                    index: answer.index,
                    outcome,
                };
                self.output.messages.push((member, message));
                self.await_commit(answer.index);
            }
            Asker::Internal => {}
            Asker::Local(_) => self.output.answers.push(answer),
        }
    }

    /// Releases the reads that wait for an applied index.
    pub(super) fn release_reads(&mut self) {
        for (index, asker) in self.reads.take_ready(self.engine.applied_index()) {
            match asker {
                ReadAsker::Member { member, round } => {
                    let message = PeerMessage::ReadAt { round, index };
                    self.output.messages.push((member, message));
                    self.await_commit(index);
                }
                ReadAsker::Unchanged(number) => self.give_unchanged(number),
                ReadAsker::Lease(number) => self.answer_lease_question(number),
                ReadAsker::Local(_) => self.output.reads.push((asker, Ok(()))),
            }
        }
    }
}

/// Error for a command that was certainly not carried out, because its leader lost its
/// leadership.
pub(super) fn changed() -> Error {
    Error::Refused(etcd_api::Error::LeaderChanged.into())
}

/// Error for a command with an unknown outcome, after a change of leader.
pub(super) fn lost() -> Error {
    Error::Refused(etcd_api::Error::TimeoutDueToLeaderFail.into())
}
