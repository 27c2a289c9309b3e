//! What a voter owes a leader it has heard: no vote for another, for an election
//! timeout by this member's own clock.
//!
//! The library has such a rule too, but it counts ticks, and it forgets: at a
//! restart, and whenever a greater term is heard of. A leader that reads under a
//! lease believes in this one. A vote at the leader's own wish (a transfer) is
//! given at once: the leader has let its lease go before it wished.

use std::time::Duration;

use environment::Instant;
use raft::CAMPAIGN_TRANSFER;
use raft::eraftpb::{Message, MessageType};

use super::Replica;
use crate::Error;

/// One voter's promise.
#[derive(Debug)]
pub(super) struct Promise {
    election_timeout: Duration,
    /// No vote before that.
    until: Instant,
}

impl Promise {
    /// At the start of a life, the directory's `opening`th from 1. Whoever lived
    /// before may have answered a leader a moment before that life ended.
    pub fn new(election_timeout: Duration, opening: u32, now: Instant) -> Promise {
        let owed = if opening <= 1 {
            Duration::ZERO
        } else {
            election_timeout
        };
        Promise {
            election_timeout,
            until: now + owed,
        }
    }

    /// For how long a leader that is heard has this member's promise.
    pub fn length(&self) -> Duration {
        self.election_timeout
    }

    /// Owes nothing: for a mutant.
    pub fn forget(&mut self) {
        self.until = Instant::default();
    }
}

impl Replica {
    /// A message of the consensus has come.
    pub(super) fn step_raft(&mut self, mut message: Message) {
        let now = self.clock.now();
        match message.get_msg_type() {
            MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot
                if message.term >= self.consensus.raft().term =>
            {
                self.promise.until = now + self.promise.election_timeout;
            }
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote
                if now < self.promise.until && message.context[..] != *CAMPAIGN_TRANSFER =>
            {
                tracing::debug!(from = message.from, "no vote: a leader was heard lately");
                return;
            }
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote
                if !self.may_vote_for(&message) =>
            {
                tracing::debug!(from = message.from, "no vote: this member returns");
                return;
            }
            MessageType::MsgTimeoutNow if !self.may_stand() => return,
            MessageType::MsgAppendResponse if !self.is_of_this_life(&mut message) => return,
            MessageType::MsgHeartbeatResponse => self.note_promise(&mut message, now),
            _ => {}
        }
        if let Err(error) = self.take(message) {
            self.fail(error);
        }
    }

    /// Hands it to the library, behind the writing of what came before where the log's
    /// next segment may not hold both.
    fn take(&mut self, message: Message) -> Result<(), Error> {
        if !self.consensus.takes_before_writing(&message) {
            self.settle()?;
        }
        self.consensus.receive(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_never_lived_before_owes_nothing_at_the_start() {
        let (timeout, now) = (
            Duration::from_secs(1),
            Instant::from_origin(Duration::from_secs(7)),
        );
        assert_eq!(Promise::new(timeout, 1, now).until, now);
        assert_eq!(Promise::new(timeout, 2, now).until, now + timeout);
    }
}
