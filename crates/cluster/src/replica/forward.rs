//! Commands that a follower was asked for: the leader does them.
//!
//! They are sent once. When the leader's answer comes, it waits until this
//! member has applied what it tells of, so that who asked can read it here. Where
//! none comes, nobody knows whether the command was carried out: the leader, or the
//! next one, may commit it yet.

use std::collections::{BTreeMap, VecDeque};

use environment::Instant;
use revisions::{Command, Response};

use super::{Answer, Asker, Lead, Replica, apply};
use crate::Error;
use crate::peer_message::PeerMessage;

/// Bytes of other members' commands that wait at the leader; one more than
/// that is always let in.
const HELD_BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
struct Sent {
    to: Asker,
    /// It is for the removal of this member.
    removes_itself: bool,
    deadline: Instant,
}

impl Sent {
    /// Without an answer.
    fn lost(self) -> Answer {
        Answer::new(self.to, Err(apply::lost()))
    }
}

/// What is under way to the leader and back.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    last_number: u64,
    sent: BTreeMap<u64, Sent>,
    /// Answers that wait until their entry is applied here, and how long.
    waiting: Vec<(Answer, Instant)>,
}

impl Forwarded {
    /// For a new life: its commands have numbers that no earlier one had, so
    /// that late answers to those are answers to nothing.
    pub fn new(first_number: u64) -> Forwarded {
        Forwarded {
            last_number: first_number,
            ..Forwarded::default()
        }
    }

    fn add(&mut self, sent: Sent) -> u64 {
        self.last_number += 1;
        self.sent.insert(self.last_number, sent);
        self.last_number
    }

    /// The leader has none of this member's commands, nor is an answer of its
    /// waited with.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.waiting.is_empty()
    }

    /// All that nobody has answered.
    pub fn take_all(&mut self) -> Vec<Answer> {
        let sent = std::mem::take(&mut self.sent).into_values();
        sent.map(Sent::lost).collect()
    }

    /// Those whose patience has ended.
    pub fn take_late(&mut self, now: Instant) -> Vec<Answer> {
        let late = |(&number, sent): (&u64, &Sent)| (now >= sent.deadline).then_some(number);
        let late: Vec<u64> = self.sent.iter().filter_map(late).collect();
        let late = late.iter().filter_map(|number| self.sent.remove(number));
        let late = late.map(Sent::lost);
        let mut late: Vec<Answer> = late.collect();
        let unseen = self
            .waiting
            .extract_if(.., |(_, deadline)| now >= *deadline);
        late.extend(unseen.map(|(answer, _)| answer));
        late
    }

    /// Who has asked for the removal of this member, and has no answer.
    pub fn take_own_removals(&mut self) -> Vec<Asker> {
        let all = std::mem::take(&mut self.sent).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|(_, sent)| sent.removes_itself);
        self.sent = others.into_iter().collect();
        own.into_iter().map(|(_, sent)| sent.to).collect()
    }

    /// Answers whose entry is not applied here, for the end of this member.
    pub fn take_waiting(&mut self) -> Vec<Answer> {
        let waiting = self.waiting.drain(..);
        waiting.map(|(answer, _)| answer).collect()
    }
}

/// Other members' commands that wait at the leader: until it may evaluate, for
/// room in the batch, or until the lead is handed over or kept.
#[derive(Debug, Default)]
pub(super) struct Held {
    commands: VecDeque<(Asker, Command)>,
    bytes: usize,
}

impl Held {
    fn push(&mut self, to: Asker, command: &Command) {
        self.bytes += command.size_bytes();
        self.commands.push_back((to, command.clone()));
    }

    fn pop(&mut self) -> Option<(Asker, Command)> {
        let (to, command) = self.commands.pop_front()?;
        self.bytes -= command.size_bytes();
        Some((to, command))
    }

    /// All of them, for the end of the lead: none was carried out.
    pub fn take_all(&mut self) -> Vec<Answer> {
        self.bytes = 0;
        let all = std::mem::take(&mut self.commands).into_iter();
        all.map(|(to, _)| Answer::new(to, Err(apply::changed())))
            .collect()
    }
}

impl Replica {
    pub(super) fn forward(&mut self, command: &Command, to: Asker) {
        let deadline = self.clock.now() + self.patience;
        let number = self.forwarded.add(Sent {
            to,
            removes_itself: self.removes_itself(command),
            deadline,
        });
        let message = PeerMessage::Command {
            number,
            command: command.clone(),
        };
        self.output.messages.push((self.leader, message));
    }

    /// A follower takes this member for the leader.
    pub(super) fn do_for_another(&mut self, member: u64, number: u64, command: &Command) {
        let to = Asker::Member { member, number };
        if self.lead == Lead::No {
            // Not sent on: it could go round in circles.
            self.send_answer(Answer::new(to, Err(apply::changed())));
        } else if self.held.commands.is_empty() && self.takes(command) {
            self.evaluate(command, to, false);
        } else if self.held.bytes < HELD_BYTES_MAX {
            self.held.push(to, command);
        } else {
            let refused = Error::Refused(etcd_api::Error::TooManyRequests.into());
            self.send_answer(Answer::new(to, Err(refused)));
        }
    }

    /// Whether the first of the held commands can be evaluated now.
    pub(super) fn takes_held(&self) -> bool {
        let first = self.held.commands.front();
        self.lead == Lead::Ready && first.is_some_and(|(_, command)| self.takes(command))
    }

    /// Evaluates what others asked for and had to wait.
    pub(super) fn evaluate_held(&mut self) {
        while self.takes_held()
            && let Some((to, command)) = self.held.pop()
        {
            self.evaluate(&command, to, false);
        }
    }

    /// The leader's answer to a command of this member's.
    pub(super) fn answered(
        &mut self,
        number: u64,
        index: u64,
        outcome: Result<Response, revisions::Error>,
    ) {
        let Some(sent) = self.forwarded.sent.remove(&number) else {
            return;
        };
        let mut answer = Answer::new(sent.to, outcome.map_err(Error::Refused));
        answer.index = index;
        self.forwarded.waiting.push((answer, sent.deadline));
        self.release_forwarded(self.engine.applied_index());
    }

    /// Answers whose entry is applied here by now.
    pub(super) fn release_forwarded(&mut self, applied: u64) {
        let ready = |(answer, _): &mut (Answer, Instant)| answer.index <= applied;
        let ready = self.forwarded.waiting.extract_if(.., ready);
        let ready: Vec<Answer> = ready.map(|(answer, _)| answer).collect();
        ready
            .into_iter()
            .for_each(|answer| self.send_answer(answer));
    }
}
