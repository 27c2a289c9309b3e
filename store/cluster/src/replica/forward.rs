//! Commands that a follower forwards to the leader.
//!
//! A command is sent once. The leader's answer waits until this member has applied the
//! entry it names, so that the client can read its own write here. If no answer comes, the
//! outcome is unknown: the leader, or the next one, may still commit the command. If the
//! answer is that the command was not carried out, it is tried again (`again.rs`).

use std::collections::{BTreeMap, VecDeque};

use environment::Instant;
use revisions::{Command, Response};

use super::again::{Asked, Retry};
use super::{Answer, Asker, Lead, Replica, apply};
use crate::Error;
use crate::peer_message::PeerMessage;

/// Bytes of other members' commands that may wait at the leader. A command is accepted
/// as long as fewer bytes wait, so the last one may exceed the limit.
const HELD_BYTES_MAX: usize = 64 << 20;

/// How long the answers of a former leader are waited for, in heartbeat intervals.
const DOUBT_HEARTBEATS: u32 = 2;

#[derive(Debug)]
struct Sent {
    to: Asker,
    asked: Asked,
    /// A copy of the command, if there was room for one.
    command: Option<Command>,
    /// The member that the command removes, if it is such a command.
    removes: Option<u64>,
    /// The leader has changed since the command was sent.
    is_in_doubt: bool,
    deadline: Instant,
}

/// Commands that were sent to the leader, and answers that wait to be applied.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    last_number: u64,
    sent: BTreeMap<u64, Sent>,
    /// Answers that wait until their entry is applied here, with their deadlines.
    waiting: Vec<(Answer, Instant)>,
}

impl Forwarded {
    /// Numbers the commands of this life above `first_number`. No earlier life used these
    /// numbers, so late answers to its commands are ignored.
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

    /// Takes the command with this number, if `is_wanted` returns true for it.
    fn take_if(&mut self, number: u64, is_wanted: impl FnOnce(&mut Sent) -> bool) -> Option<Sent> {
        let sent = self.sent.get_mut(&number)?;
        is_wanted(sent).then(|| self.sent.remove(&number))?
    }

    /// Whether no command is at the leader and no answer waits for its entry.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.waiting.is_empty()
    }

    /// Takes all commands that have no answer.
    fn take_all(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent).into_values().collect()
    }

    /// Takes the commands and the waiting answers that are past their deadline.
    fn take_late(&mut self, now: Instant) -> (Vec<Sent>, Vec<Answer>) {
        let late = self.sent.extract_if(.., |_, sent| now >= sent.deadline);
        let late = late.map(|(_, sent)| sent).collect();
        let unseen = self
            .waiting
            .extract_if(.., |(_, deadline)| now >= *deadline);
        (late, unseen.map(|(answer, _)| answer).collect())
    }

    /// Takes the answers that wait for an entry, when this member ends.
    pub fn take_waiting(&mut self) -> Vec<Answer> {
        let waiting = self.waiting.drain(..);
        waiting.map(|(answer, _)| answer).collect()
    }
}

/// Other members' commands that wait at the leader: until it may evaluate commands, until
/// the open batch has room, or until a transfer of leadership has ended.
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

    /// Takes all of them when leadership ends, with the answer that they were not carried out.
    pub fn take_all(&mut self) -> Vec<Answer> {
        self.bytes = 0;
        let all = std::mem::take(&mut self.commands).into_iter();
        all.map(|(to, _)| Answer::new(to, Err(apply::changed())))
            .collect()
    }
}

impl Replica {
    pub(super) fn forward(&mut self, command: &Command, to: Asker) {
        self.forward_until(command, to, self.clock.now() + self.patience);
    }

    pub(super) fn forward_until(&mut self, command: &Command, to: Asker, deadline: Instant) {
        let removes = match command {
            Command::MemberRemove(request) => Some(request.id),
            _ => None,
        };
        let number = self.forwarded.add(Sent {
            to,
            asked: self.asked(),
            command: self.again.keep(command),
            removes,
            is_in_doubt: false,
            deadline,
        });
        let message = PeerMessage::Command {
            number,
            command: command.clone(),
        };
        self.output.messages.push((self.leader, message));
    }

    /// Ends a command, because its outcome is known or given up, and returns its asker.
    fn settled(&mut self, sent: Sent) -> Asker {
        if let Some(command) = &sent.command {
            self.again.forget(command);
        }
        sent.to
    }

    /// Shortens the deadlines of all commands after a change of leader. If the former leader
    /// is up, it answers within a moment; otherwise the outcome of its commands is unknown.
    pub(super) fn doubt_forwarded(&mut self) {
        let until = self.clock.now() + self.heartbeat_interval * DOUBT_HEARTBEATS;
        for sent in self.forwarded.sent.values_mut() {
            sent.is_in_doubt = true;
            sent.deadline = sent.deadline.min(until);
        }
    }

    /// Takes the askers of all forwarded commands, when this member ends.
    pub(super) fn take_forwarded(&mut self) -> Vec<Asker> {
        let all = self.forwarded.take_all().into_iter();
        all.map(|sent| self.settled(sent)).collect()
    }

    pub(super) fn give_up_forwarded(&mut self, now: Instant) {
        let (late, unseen) = self.forwarded.take_late(now);
        let timeout = Error::Refused(etcd_api::Error::Timeout.into());
        for sent in late {
            let error = match sent.is_in_doubt {
                true => apply::lost(),
                false => timeout.clone(),
            };
            let to = self.settled(sent);
            self.send_answer(Answer::new(to, Err(error)));
        }
        self.fail_answers(unseen, &timeout);
    }

    /// Takes the forwarded removals of members for which `is_done` returns true. Returns the
    /// asker and the removed member of each. `is_done` gets the member to remove and the
    /// leader that was asked.
    pub(super) fn take_removals(
        &mut self,
        is_done: impl Fn(u64, u64) -> bool,
    ) -> Vec<(Asker, u64)> {
        let is_done = |_: &u64, sent: &mut Sent| {
            sent.removes
                .is_some_and(|removed| is_done(removed, sent.asked.leader))
        };
        let done: Vec<Sent> = self
            .forwarded
            .sent
            .extract_if(.., is_done)
            .map(|(_, sent)| sent)
            .collect();
        let done = done.into_iter().filter_map(|sent| {
            let removed = sent.removes?;
            Some((self.settled(sent), removed))
        });
        done.collect()
    }

    /// Handles a command of a follower that takes this member for the leader.
    pub(super) fn do_for_another(&mut self, member: u64, number: u64, command: &Command) {
        let to = Asker::Member { member, number };
        if let Err(error) = self.command_limits.check(member, command) {
            return self.send_answer(Answer::new(to, Err(Error::Refused(error.into()))));
        }
        if self.lead == Lead::No {
            // It is not forwarded again, or it could go round in circles.
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

    /// Evaluates other members' commands that had to wait, as far as there is room.
    pub(super) fn evaluate_held(&mut self) {
        while self.takes_held()
            && let Some((to, command)) = self.held.pop()
        {
            self.evaluate(&command, to, false);
        }
    }

    /// Handles the leader's answer to a command that this member has forwarded.
    pub(super) fn answered(
        &mut self,
        from: u64,
        number: u64,
        index: u64,
        outcome: Result<Response, revisions::Error>,
    ) {
        let of_it = |sent: &mut Sent| sent.asked.leader == from;
        let Some(sent) = self.forwarded.take_if(number, of_it) else {
            return;
        };
        let Sent {
            to,
            asked,
            command,
            deadline,
            ..
        } = sent;
        if let Some(command) = command {
            if outcome.as_ref().is_err_and(was_not_carried_out) {
                return self.again.wait(Retry {
                    to,
                    command,
                    deadline,
                    asked,
                });
            }
            self.again.forget(&command);
        }
        let mut answer = Answer::new(to, outcome.map_err(Error::Refused));
        answer.index = index;
        self.forwarded.waiting.push((answer, deadline));
        self.release_forwarded(self.engine.applied_index());
    }

    /// Sends the answers that waited for an entry up to `applied`.
    pub(super) fn release_forwarded(&mut self, applied: u64) {
        let ready = |(answer, _): &mut (Answer, Instant)| answer.index <= applied;
        let ready = self.forwarded.waiting.extract_if(.., ready);
        let ready: Vec<Answer> = ready.map(|(answer, _)| answer).collect();
        ready
            .into_iter()
            .for_each(|answer| self.send_answer(answer));
    }
}

/// Whether the leader says that it dropped the command when it lost its leadership.
fn was_not_carried_out(error: &revisions::Error) -> bool {
    matches!(
        error,
        revisions::Error::Etcd(etcd_api::Error::LeaderChanged)
    )
}
