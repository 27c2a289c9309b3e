//! The state machine's driver without threads, clock or I/O.
//!
//! Inputs: [`Replica::propose`], [`Replica::tick`], [`Replica::persisted`].
//! Outputs: the batch to append ([`Replica::seal`], answered with
//! [`Replica::appended`] or [`Replica::refused`]) and the answers that may go
//! out. The driver does the I/O in between, in this order:
//!
//! ```text
//!   open batch ──seal──► sealed ──appended──► in flight ──persisted──► committed ──apply──► answered
//!   (evaluated)          (one at most)        (one at most)
//! ```
//!
//! Invariants: batches are applied in the order they were sealed; an answer
//! leaves only after every batch that its evaluation could see is applied,
//! even when the command itself wrote nothing.

use std::collections::VecDeque;

use engine::{Appended, Batch};
use environment::Instant;
use revisions::{Command, Machine, Response};
use tokio::sync::oneshot;
use value_log::Sequence;

use crate::Error;

/// An evaluated command's answer, held back until it may be given.
#[derive(Debug)]
pub struct Answer {
    /// `None` for the replica's own commands (lease expiry).
    to: Option<oneshot::Sender<Result<Response, Error>>>,
    outcome: Result<Response, Error>,
    /// A physical compaction: to be given when what it lets go has gone.
    swept: Option<i64>,
    /// The command, if it needs no room: others in its batch may, and then it
    /// is evaluated again without them.
    roomless: Option<Command>,
    /// The end of a lease that nobody renewed.
    ends_lease: bool,
}

impl Answer {
    /// Gives the answer; nobody listening any more is fine.
    pub fn give(self) {
        if let Some(to) = self.to {
            let _ = to.send(self.outcome);
        }
    }

    /// Gives `error` instead: the outcome did not come true.
    fn fail(self, error: &Error) {
        if let Some(to) = self.to {
            let _ = to.send(Err(error.clone()));
        }
    }
}

/// A batch on its way to stable storage.
#[derive(Debug)]
struct InFlight {
    batch: Batch,
    appended: Appended,
    answers: Vec<Answer>,
}

/// The driver of one node's state machine.
#[derive(Debug)]
pub struct Replica {
    machine: Machine,
    /// Raft's term: one more than the newest in the log, at every start.
    term: u64,
    /// Index of the newest sealed batch; the next one takes `index + 1`.
    index: u64,
    /// Answers of the open batch, in order of evaluation.
    open: Vec<Answer>,
    /// Handed out by [`Replica::seal`], not yet appended.
    sealed: Option<(Batch, Vec<Answer>)>,
    /// Appended, not yet stable; oldest first.
    in_flight: VecDeque<InFlight>,
    /// The replica's own commands that wait for room in a batch.
    due: VecDeque<Command>,
    /// Leases ended because nobody renewed them, since the start.
    leases_expired: u64,
    /// Of physical compactions that are applied and not swept.
    unswept: Vec<Answer>,
    /// Of batches refused for want of room: what needs none, in order.
    spared: VecDeque<Answer>,
    /// Set by the first failure of the log; never cleared.
    failed: Option<Error>,
}

impl Replica {
    /// Takes over a recovered machine. `term` and `index` are the newest ones
    /// found in its log.
    pub fn new(machine: Machine, term: u64, index: u64) -> Replica {
        Replica {
            machine,
            term: term + 1,
            index,
            open: Vec::new(),
            sealed: None,
            in_flight: VecDeque::new(),
            due: VecDeque::new(),
            leases_expired: 0,
            unswept: Vec::new(),
            spared: VecDeque::new(),
            failed: None,
        }
    }

    /// The state machine.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Whether a compaction's sweep is under way: steps of upkeep should follow
    /// each other.
    pub fn is_sweeping(&self) -> bool {
        self.machine.is_sweeping()
    }

    /// This start's term.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Index of the newest sealed batch.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Index of the newest applied batch.
    pub fn applied_index(&self) -> u64 {
        let waiting = self.in_flight.len() + usize::from(self.sealed.is_some());
        self.index - waiting as u64
    }

    /// Leases that were ended because nobody renewed them.
    pub fn leases_expired(&self) -> u64 {
        self.leases_expired
    }

    /// Nothing is evaluated, to be evaluated again, sealed or under way.
    pub fn is_idle(&self) -> bool {
        let flying = self.sealed.is_some() || !self.in_flight.is_empty();
        !flying && self.open.is_empty() && self.spared.is_empty()
    }

    /// Something waits to be evaluated again.
    pub fn has_spared(&self) -> bool {
        !self.spared.is_empty()
    }

    /// The open batch should be sealed before the next command.
    pub fn batch_is_full(&self) -> bool {
        self.machine.batch_is_full()
    }

    /// Evaluates a command into the open batch. False when it was refused.
    pub fn propose(
        &mut self,
        command: &Command,
        to: Option<oneshot::Sender<Result<Response, Error>>>,
    ) -> bool {
        self.enter(command, to, false)
    }

    fn enter(
        &mut self,
        command: &Command,
        to: Option<oneshot::Sender<Result<Response, Error>>>,
        ends_lease: bool,
    ) -> bool {
        let outcome = match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.machine.evaluate(command).map_err(Error::Refused),
        };
        let swept = match command {
            Command::Compact(compact) if compact.physical && outcome.is_ok() => {
                Some(compact.revision)
            }
            _ => None,
        };
        let done = outcome.is_ok();
        self.open.push(Answer {
            to,
            outcome,
            swept,
            roomless: command.needs_no_room().then(|| command.clone()),
            ends_lease,
        });
        done
    }

    /// Evaluates again what [`Replica::refused_for_want_of_room`] has spared,
    /// as much as the open batch has room for: without the others it may do
    /// more than it did before.
    pub fn propose_spared(&mut self) {
        while !self.batch_is_full()
            && let Some(answer) = self.spared.pop_front()
        {
            let command = answer.roomless.expect("only what needs no room is spared");
            self.enter(&command, answer.to, answer.ends_lease);
        }
    }

    /// Takes up what time has brought: leases that have expired.
    pub fn tick(&mut self, now: Instant) {
        if self.failed.is_none() && self.due.is_empty() {
            self.due.extend(self.machine.expired(now));
        }
        self.propose_due();
    }

    /// Evaluates the replica's own commands, as many as the open batch has
    /// room for: together they may be more than any batch holds.
    pub fn propose_due(&mut self) {
        while !self.batch_is_full()
            && let Some(command) = self.due.pop_front()
        {
            self.enter(&command, None, true);
        }
    }

    /// Closes the open batch when the device is free for it. Returns the
    /// batch to append; answer with [`Replica::appended`] or
    /// [`Replica::refused`] before anything else.
    pub fn seal(&mut self) -> Option<&Batch> {
        if self.open.is_empty() || self.sealed.is_some() || !self.in_flight.is_empty() {
            return None;
        }
        let Some(batch) = self.machine.seal(self.term, self.index + 1) else {
            // Nothing was written and nothing unapplied was seen.
            self.open.drain(..).for_each(Answer::give);
            return None;
        };
        assert_eq!(
            batch.index,
            self.index + 1,
            "batches are numbered without a gap"
        );
        self.index = batch.index;
        self.sealed = Some((batch, std::mem::take(&mut self.open)));
        self.sealed.as_ref().map(|(batch, _)| batch)
    }

    /// The sealed batch is in the log's buffer.
    pub fn appended(&mut self, appended: Appended) {
        let (batch, answers) = self.sealed.take().expect("appended() follows seal()");
        self.in_flight.push_back(InFlight {
            batch,
            appended,
            answers,
        });
    }

    /// The log took nothing of the sealed batch: it never happened.
    pub fn refused(&mut self, error: &Error) {
        let answers = self.take_back_sealed();
        answers.into_iter().for_each(|answer| answer.fail(error));
    }

    /// The same, because there is no room for what the batch would add. Who
    /// adds nothing shall not suffer for it: follow with
    /// [`Replica::propose_spared`].
    pub fn refused_for_want_of_room(&mut self, error: &Error) {
        let answers = self.take_back_sealed().into_iter();
        let (spared, refused): (Vec<_>, Vec<_>) =
            answers.partition(|answer| answer.roomless.is_some());
        // They came before what is left of those spared earlier.
        for answer in spared.into_iter().rev() {
            self.spared.push_front(answer);
        }
        refused.into_iter().for_each(|answer| answer.fail(error));
    }

    fn take_back_sealed(&mut self) -> Vec<Answer> {
        let (_, answers) = self.sealed.take().expect("refused() follows seal()");
        assert!(
            self.in_flight.is_empty(),
            "the overlay to drop holds only this batch"
        );
        self.index -= 1;
        self.machine.abandon();
        answers
    }

    /// Everything up to `sequence` is on stable storage here, which is a
    /// quorum of one. Applies it and returns the answers that may go out.
    pub fn persisted(&mut self, sequence: Sequence) -> Vec<Answer> {
        let mut answers = Vec::new();
        while self
            .in_flight
            .front()
            .is_some_and(|first| first.appended.sequence <= sequence)
        {
            let first = self.in_flight.pop_front().expect("just seen");
            self.machine.apply(first.batch, first.appended);
            let ended = |answer: &&Answer| answer.ends_lease && answer.outcome.is_ok();
            self.leases_expired += first.answers.iter().filter(ended).count() as u64;
            answers.extend(first.answers);
        }
        let swept = self.machine.swept();
        let (due, unswept) = answers
            .into_iter()
            .partition(|answer: &Answer| answer.swept.is_none_or(|at| at <= swept));
        self.unswept.extend::<Vec<Answer>>(unswept);
        due
    }

    /// The answers of physical compactions that may go out by now.
    pub fn swept(&mut self) -> Vec<Answer> {
        let swept = self.machine.swept();
        let due = |answer: &mut Answer| answer.swept.is_none_or(|at| at <= swept);
        self.unswept.extract_if(.., due).collect()
    }

    /// The answers of all other physical compactions, which the end overtakes:
    /// what they let go, goes after the next start.
    pub fn never_swept(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.unswept)
    }

    /// The log has failed: nothing that is not applied will be answered with
    /// anything but `error`, now or later.
    pub fn fail(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| error.clone());
        self.due.clear();
        let sealed = self
            .sealed
            .take()
            .into_iter()
            .flat_map(|(_, answers)| answers);
        let flying = self.in_flight.drain(..).flat_map(|flight| flight.answers);
        let waiting = self.open.drain(..).chain(self.spared.drain(..));
        for answer in flying.chain(sealed).chain(waiting) {
            answer.fail(error);
        }
        // Nobody will be renewed or revoked here: who waits for it is told.
        self.machine.demote();
    }
}

#[cfg(test)]
mod tests;
