//! Commands that a follower forwards to the leader.
//!
//! A command is sent once. The leader's answer waits until this member has applied the
//! entry it names, so that the client can read its own write here. If no answer comes, the
//! outcome is unknown: the leader, or the next one, may still commit the command. If the
//! answer is that the command was not carried out, it is tried again (`retries.rs`).

use std::collections::BTreeMap;

use environment::Instant;
use revisions::{Command, Response};

use super::answer::{Answer, Requester, leader_lost, timeout};
use super::replica_core::Core;
use super::retries::{Asked, Retries, Retry};
use crate::Error;
use crate::peer_message::PeerMessage;

/// How long the answers of a former leader are waited for, in heartbeat intervals.
const DOUBT_HEARTBEATS: u32 = 2;

#[derive(Debug)]
struct Sent {
    to: Requester,
    asked: Asked,
    /// A copy of the command, if there was room for one.
    command: Option<Command>,
    /// The member that the command removes, if it is such a command.
    removes: Option<u64>,
    /// The leader has changed since the command was sent.
    is_in_doubt: bool,
    deadline: Instant,
}

/// An answer that waits until its entry is applied here.
#[derive(Debug)]
struct Unapplied {
    answer: Answer,
    deadline: Instant,
}

/// Commands that were sent to the leader, their answers that wait to be applied, and the
/// commands that are tried again.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    last_number: u64,
    sent: BTreeMap<u64, Sent>,
    unapplied: Vec<Unapplied>,
    pub retries: Retries,
}

impl Forwards {
    /// Numbers the commands of this incarnation above `first_number`. No earlier incarnation
    /// used these numbers, so late answers to its commands are ignored.
    pub fn new(first_number: u64) -> Forwards {
        Forwards {
            last_number: first_number,
            ..Forwards::default()
        }
    }

    /// Whether no command is at the leader, no answer waits for its entry, and no command is
    /// tried again.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.unapplied.is_empty() && self.retries.waiting.is_empty()
    }

    /// Sends a command to the leader.
    pub fn send(&mut self, core: &mut Core, command: &Command, to: Requester) {
        self.send_until(core, command, to, core.deadline());
    }

    /// Sends a command to the leader; its requester gets an answer by `deadline`.
    pub fn send_until(
        &mut self,
        core: &mut Core,
        command: &Command,
        to: Requester,
        deadline: Instant,
    ) {
        let removes = match command.plain() {
            Command::MemberRemove(request) => Some(request.id),
            _ => None,
        };
        self.last_number += 1;
        let sent = Sent {
            to,
            asked: Asked::now(core),
            command: self.retries.keep(command),
            removes,
            is_in_doubt: false,
            deadline,
        };
        self.sent.insert(self.last_number, sent);
        core.send_to_leader(PeerMessage::Command {
            number: self.last_number,
            command: command.clone(),
        });
    }

    /// Handles the answer of member `from` to a command that was forwarded to it.
    pub fn answered(
        &mut self,
        core: &mut Core,
        from: u64,
        number: u64,
        index: u64,
        outcome: Result<Response, revisions::Error>,
    ) {
        let asked_here = |_: &u64, sent: &mut Sent| sent.asked.leader == from;
        let answered = self.sent.extract_if(number..=number, asked_here).next();
        let Some((_, sent)) = answered else {
            return;
        };
        let (to, asked, deadline) = (sent.to, sent.asked, sent.deadline);
        if let Some(command) = sent.command {
            if outcome.as_ref().is_err_and(was_not_carried_out) {
                return self.retries.waiting.push_back(Retry {
                    to,
                    command,
                    deadline,
                    asked,
                });
            }
            self.retries.forget(&command);
        }
        let mut answer = Answer::new(to, outcome.map_err(Error::Refused));
        answer.index = index;
        self.unapplied.push(Unapplied { answer, deadline });
        let applied = core.engine().applied_index();
        self.release(core, applied);
    }

    /// Sends the answers that waited for an entry up to `applied`.
    pub fn release(&mut self, core: &mut Core, applied: u64) {
        let ready = |waiting: &mut Unapplied| waiting.answer.index <= applied;
        for ready in self.unapplied.extract_if(.., ready) {
            core.send_answer(ready.answer);
        }
    }

    /// Sends all answers that wait for an entry, because this member will not apply it.
    pub fn release_all(&mut self, core: &mut Core) {
        for waiting in self.unapplied.drain(..) {
            core.send_answer(waiting.answer);
        }
    }

    /// Shortens the deadlines of all commands after a change of leader. If the former leader
    /// is up, it answers within a moment; otherwise the outcome of its commands is unknown.
    pub fn doubt(&mut self, core: &Core) {
        let until = core.now() + core.options.heartbeat_interval * DOUBT_HEARTBEATS;
        for sent in self.sent.values_mut() {
            sent.is_in_doubt = true;
            sent.deadline = sent.deadline.min(until);
        }
    }

    /// Takes the forwarded removals of members for which `is_done` returns true: the removed
    /// member and the requester of each. `is_done` gets the member to remove and the leader that
    /// was asked.
    pub fn take_removals(&mut self, is_done: impl Fn(u64, u64) -> bool) -> Vec<(u64, Requester)> {
        let is_done = |_: &u64, sent: &mut Sent| {
            let removed = sent.removes;
            removed.is_some_and(|removed| is_done(removed, sent.asked.leader))
        };
        let done: Vec<(u64, Sent)> = self.sent.extract_if(.., is_done).collect();
        let done = done.into_iter();
        done.filter_map(|(_, sent)| Some((sent.removes?, self.end_sent(sent))))
            .collect()
    }

    /// Ends a command, because its outcome is known or given up, and returns its requester.
    fn end_sent(&mut self, sent: Sent) -> Requester {
        if let Some(command) = &sent.command {
            self.retries.forget(command);
        }
        sent.to
    }

    /// Answers the commands that have reached their time limits.
    pub fn end_late(&mut self, core: &mut Core, now: Instant) {
        let late = self.sent.extract_if(.., |_, sent| now >= sent.deadline);
        let late: Vec<Sent> = late.map(|(_, sent)| sent).collect();
        for sent in late {
            let error = match sent.is_in_doubt {
                true => leader_lost(),
                false => timeout(),
            };
            let to = self.end_sent(sent);
            core.send_error(to, error);
        }
        let late = |waiting: &mut Unapplied| now >= waiting.deadline;
        for waiting in self.unapplied.extract_if(.., late) {
            core.send_answer(waiting.answer.failed(&timeout()));
        }
        for to in self.retries.take_where(|it| now >= it.deadline) {
            core.send_error(to, timeout());
        }
    }

    /// Answers all commands, because this member ends.
    pub fn end(&mut self, core: &mut Core, error: &Error) {
        for waiting in self.unapplied.drain(..) {
            core.end_request(waiting.answer.requester, error);
        }
        for (_, sent) in std::mem::take(&mut self.sent) {
            let to = self.end_sent(sent);
            core.end_request(to, error);
        }
        for to in self.retries.take_where(|_| true) {
            core.end_request(to, error);
        }
    }
}

/// Whether the leader says that it dropped the command when it lost its leadership.
fn was_not_carried_out(error: &revisions::Error) -> bool {
    matches!(
        error,
        revisions::Error::Etcd(etcd_api::Error::LeaderChanged)
    )
}
