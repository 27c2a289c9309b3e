//! A voter's promise to a leader: after each message of the leader, no vote for another
//! member for an election timeout by this member's own clock.
//!
//! The Raft library has such a rule too, but it counts ticks, and drops the promise at a
//! restart and whenever it sees a greater term. A leader that reads under a lease relies
//! on the promise here. A vote that the leader itself asks for (a transfer of leadership)
//! is given at once: the leader has given up its lease before it asked.

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
    /// This member votes for no other member before this moment.
    until: Instant,
}

impl Promise {
    /// The promise at the start of a life, the directory's `opening`th, counted from 1. An
    /// earlier life may have answered a leader a moment before it ended, so every life but
    /// the first begins with a promise.
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

    /// How long a promise holds after a leader's message.
    pub fn length(&self) -> Duration {
        self.election_timeout
    }

    /// Drops the promise; only for a mutant.
    pub fn forget(&mut self) {
        self.until = Instant::default();
    }
}

impl Replica {
    /// Handles a Raft message: applies this member's own rules on votes and answers, and
    /// passes it to the consensus.
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
                tracing::debug!(
                    from = message.from,
                    "this member refuses its vote: its promise to a leader holds"
                );
                return;
            }
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote
                if !self.may_vote_for(&message) =>
            {
                tracing::debug!(
                    from = message.from,
                    "this member refuses its vote: it is returning"
                );
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

    /// Passes a message to the consensus. Earlier entries are written first if the log's
    /// next segment might not hold both.
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
    fn only_the_first_life_of_a_directory_starts_without_a_promise() {
        let (timeout, now) = (
            Duration::from_secs(1),
            Instant::from_origin(Duration::from_secs(7)),
        );
        assert_eq!(Promise::new(timeout, 1, now).until, now);
        assert_eq!(Promise::new(timeout, 2, now).until, now + timeout);
    }
}
