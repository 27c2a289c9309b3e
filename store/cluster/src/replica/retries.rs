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

use super::answer::Requester;
use super::replica_core::Core;

/// Limit on the bytes of commands that are kept until their answers arrive. A command
/// above the limit is not kept, and not tried again.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The leader that was asked to carry out a command, and its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub leader: u64,
    pub term: u64,
}

impl Asked {
    /// The leader that this member knows now.
    pub fn now(core: &Core) -> Asked {
        Asked {
            leader: core.leader,
            term: core.raft().term,
        }
    }
}

/// A command that waits for another leader.
#[derive(Debug)]
pub(super) struct Retry {
    pub to: Requester,
    pub command: Command,
    pub deadline: Instant,
    /// The leader that did not carry it out.
    pub asked: Asked,
}

/// The commands that are tried again.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// Commands that were kept and wait for another leader or term.
    pub waiting: VecDeque<Retry>,
    /// Size of the commands that wait here and of the copies that `keep` has returned.
    bytes: usize,
}

impl Retries {
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

    /// Takes the command at this place of the queue.
    pub fn take(&mut self, at: usize) -> Retry {
        let retry = self.waiting.remove(at).expect("the caller has looked");
        self.forget(&retry.command);
        retry
    }

    /// Takes the commands that are `due` and returns their requesters.
    pub fn take_where(&mut self, due: impl Fn(&Retry) -> bool) -> Vec<Requester> {
        let mut taken = Vec::new();
        while let Some(at) = self.waiting.iter().position(&due) {
            taken.push(self.take(at).to);
        }
        taken
    }
}
