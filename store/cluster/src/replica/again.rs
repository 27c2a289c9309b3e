//! Commands that were certainly not carried out, and that this member tries again.
//!
//! ```text
//!   follower        forwarded ──► leader that loses the lead ──"leader changed"──► waits here
//!   leader of two   asked to remove itself ──► hands over ──────────────────────► waits here
//!   waits here ──► another leader, or another term, is known ──► forwarded, or evaluated here
//! ```
//!
//! The answer "leader changed" says that a command was not carried out and never will be.
//! etcd's clients do not repeat writes after this answer, so the member that received the
//! write from its client repeats it.

use std::collections::VecDeque;

use environment::Instant;
use revisions::Command;

use super::{Answer, Asker, Lead, Replica};
use crate::Error;

/// Limit on the bytes of commands that are kept until their answers arrive. A command
/// above the limit is not kept, and not tried again.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The leader that was asked to carry out a command, and its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub leader: u64,
    pub term: u64,
}

/// A command that waits for another leader.
#[derive(Debug)]
pub(super) struct Retry {
    pub to: Asker,
    pub command: Command,
    pub deadline: Instant,
    /// The leader that did not carry it out.
    pub asked: Asked,
}

/// The commands that are tried again.
#[derive(Debug, Default)]
pub(super) struct Again {
    waiting: VecDeque<Retry>,
    /// Size of the commands that wait here and of the copies that `keep` has returned.
    bytes: usize,
}

impl Again {
    /// Returns a copy of the command, for the case that its leader does not carry it out;
    /// none if the limit is reached.
    pub fn keep(&mut self, command: &Command) -> Option<Command> {
        let bytes = command.size_bytes();
        if self.bytes + bytes > KEPT_BYTES_MAX {
            return None;
        }
        self.bytes += bytes;
        Some(command.clone())
    }

    /// Gives back the bytes of a copy that is not needed any more.
    pub fn forget(&mut self, kept: &Command) {
        self.bytes -= kept.size_bytes();
    }

    /// Lets a command that was kept wait for another leader or term.
    pub fn wait(&mut self, retry: Retry) {
        self.waiting.push_back(retry);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn take(&mut self, at: usize) -> Retry {
        let retry = self.waiting.remove(at).expect("the caller has looked");
        self.forget(&retry.command);
        retry
    }

    /// Takes the commands that are past their deadline and returns their askers.
    pub fn take_late(&mut self, now: Instant) -> Vec<Asker> {
        let mut late = Vec::new();
        while let Some(at) = self.waiting.iter().position(|it| now >= it.deadline) {
            late.push(self.take(at).to);
        }
        late
    }

    pub fn take_all(&mut self) -> Vec<Asker> {
        let mut all = Vec::new();
        while !self.waiting.is_empty() {
            all.push(self.take(0).to);
        }
        all
    }
}

impl Replica {
    pub(super) fn asked(&self) -> Asked {
        Asked {
            leader: self.leader,
            term: self.term(),
        }
    }

    /// Tries the commands again that the current leader, or this member, can carry out.
    pub(super) fn try_again(&mut self) {
        let mut at = 0;
        while at < self.again.waiting.len() {
            let retry = &self.again.waiting[at];
            if self.must_hand_over_before(&retry.command) {
                // The other member has not become the leader yet.
                self.hand_over();
                at += 1;
            } else if retry.asked == self.asked() && self.lead == Lead::No
                || !self.takes(&retry.command)
            {
                at += 1;
            } else {
                let Retry {
                    to,
                    command,
                    deadline,
                    ..
                } = self.again.take(at);
                if self.lead == Lead::Ready {
                    self.evaluate(&command, to, false);
                } else {
                    self.forward_until(&command, to, deadline);
                }
            }
        }
    }

    /// Handles a request that this leader remove itself when another member has to carry
    /// that out: hands leadership over. A local request waits and is tried again; a request
    /// of another member is refused, and that member tries again.
    pub(super) fn hand_over_before_removal(&mut self, command: &Command, to: Asker) {
        self.hand_over();
        let kept = match to {
            Asker::Member { .. } => None,
            Asker::Local(_) | Asker::Internal => self.again.keep(command),
        };
        match kept {
            Some(command) => self.again.wait(Retry {
                to,
                command,
                deadline: self.clock.now() + self.patience,
                asked: self.asked(),
            }),
            None => self.send_answer(Answer::new(to, Err(super::apply::changed()))),
        }
    }

    /// Answers commands that have waited too long with a timeout.
    pub(super) fn give_up_trying(&mut self, now: Instant) {
        let timeout = Error::Refused(etcd_api::Error::Timeout.into());
        for to in self.again.take_late(now) {
            self.send_answer(Answer::new(to, Err(timeout.clone())));
        }
    }
}
