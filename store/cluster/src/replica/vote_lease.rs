//! A voter's lease on its vote: after each message of the leader, no vote for another
//! member for an election timeout by this member's own clock.
//!
//! The Raft library has such a rule too, but it counts ticks, and drops the lease at a
//! restart and whenever it sees a greater term. A leader that reads under a lease relies
//! on the lease here. A vote that the leader itself asks for (a transfer of leadership)
//! is given at once: the leader has given up its lease before it asked.

use std::time::Duration;

use environment::Instant;
use raft::CAMPAIGN_TRANSFER;
use raft::eraftpb::Message;

/// One voter's lease on its vote, which its leader has.
#[derive(Debug)]
pub(super) struct VoteLease {
    election_timeout: Duration,
    /// This member votes for no other member before this moment.
    until: Instant,
}

impl VoteLease {
    /// The lease at the start of an incarnation, the directory's `opening`th, counted from 1.
    /// An earlier incarnation may have answered a leader a moment before it ended, so every
    /// one but the first begins with a lease.
    pub fn new(election_timeout: Duration, opening: u32, now: Instant) -> VoteLease {
        let left = if opening <= 1 {
            Duration::ZERO
        } else {
            election_timeout
        };
        VoteLease {
            election_timeout,
            until: now + left,
        }
    }

    /// How long the lease holds after a leader's message.
    pub fn length(&self) -> Duration {
        self.election_timeout
    }

    /// Begins the lease again, because a message of the leader has arrived.
    pub fn extend(&mut self, now: Instant) {
        self.until = now + self.election_timeout;
    }

    /// Whether the lease forbids this member to grant the requested vote.
    pub fn forbids(&self, request: &Message, now: Instant) -> bool {
        now < self.until && request.context[..] != *CAMPAIGN_TRANSFER
    }

    /// Drops the lease; only for a mutant.
    pub fn forget(&mut self) {
        self.until = Instant::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_incarnation_of_a_directory_starts_without_a_lease() {
        let (timeout, now) = (
            Duration::from_secs(1),
            Instant::from_origin(Duration::from_secs(7)),
        );
        assert_eq!(VoteLease::new(timeout, 1, now).until, now);
        assert_eq!(VoteLease::new(timeout, 2, now).until, now + timeout);
    }
}
