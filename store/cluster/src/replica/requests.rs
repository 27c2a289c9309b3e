//! The requests that wait in the replica whatever its role: a change of role does not decide
//! their outcome.
//!
//! Each of them is answered when its outcome is known, when its time limit has passed, or
//! when the member ends ([`Requests::end`]).

use std::collections::VecDeque;

use environment::Instant;

use super::answer::{Answer, leader_lost, timeout};
use super::forwards::Forwards;
use super::leases::LeaseRequests;
use super::reads::{ReadRequester, Reads};
use super::replica_core::Core;
use super::transfer::TransferCallers;
use crate::{EntryId, Error};

/// A batch that this member has proposed as an entry, and the answers that wait for it.
#[derive(Debug)]
pub(super) struct InFlight {
    pub entry: EntryId,
    pub answers: Vec<Answer>,
    pub proposed: Instant,
    pub deadline: Instant,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Requests {
    /// Batches that may still be committed, by this member or by another leader, in order.
    pub in_flight: VecDeque<InFlight>,
    pub reads: Reads,
    pub forwards: Forwards,
    pub leases: LeaseRequests,
    pub transfers: TransferCallers,
}

impl Requests {
    /// Numbers this incarnation's questions to other members above `first_number`.
    pub fn new(first_number: u64) -> Requests {
        Requests {
            in_flight: VecDeque::new(),
            reads: Reads::new(first_number),
            forwards: Forwards::new(first_number),
            leases: LeaseRequests::new(first_number),
            transfers: TransferCallers::default(),
        }
    }

    /// Whether no command waits here: none is in flight, forwarded, or to be tried again.
    pub fn has_no_command(&self) -> bool {
        self.in_flight.is_empty() && self.forwards.is_empty()
    }

    /// Answers every request that waits, because this member ends.
    pub fn end(&mut self, core: &mut Core, error: &Error) {
        // Every field is named here, so that a new one cannot be forgotten.
        let Requests {
            in_flight,
            reads,
            forwards,
            leases,
            transfers,
        } = self;
        for answer in in_flight.drain(..).flat_map(|batch| batch.answers) {
            core.end_request(answer.requester, error);
        }
        forwards.end(core, error);
        leases.end(core, error);
        transfers.end(core, error);
        for requester in reads.take_all() {
            end_read(core, requester, error);
        }
    }

    /// Answers the requests that have reached their time limits, but for those that only the
    /// leader's role knows: returns the numbers of the reads for which unchanged answers wait.
    #[must_use]
    pub fn end_late(&mut self, core: &mut Core, now: Instant) -> Vec<u64> {
        self.leases.tend(core, now);
        self.transfers.end_late(core, now);
        let mut unchanged = Vec::new();
        for requester in self.reads.take_late(now) {
            match requester {
                ReadRequester::Local(to) => core.reply(to, Err(timeout())),
                ReadRequester::Unchanged(read) => unchanged.push(read),
                // The member or the question has a deadline of its own.
                ReadRequester::Member { .. } | ReadRequester::Lease(_) => {}
            }
        }
        self.forwards.end_late(core, now);
        // The outcome of these is unknown: this member lost its leadership, or the majority
        // does not answer.
        let mut late = Vec::new();
        for batch in &mut self.in_flight {
            if now >= batch.deadline {
                late.append(&mut batch.answers);
            }
        }
        core.fail_answers(late, &leader_lost());
        unchanged
    }

    /// Fails the batches in flight, after a snapshot of another member has replaced the state
    /// for which they were proposed: their outcomes are unknown.
    pub fn end_in_flight(&mut self, core: &mut Core) {
        let in_flight = std::mem::take(&mut self.in_flight).into_iter();
        let answers = in_flight.flat_map(|batch| batch.answers).collect();
        core.fail_answers(answers, &leader_lost());
    }
}

/// Ends a read at a member that has failed and confirms nothing any more. If this
/// member is the only voter and its log has failed, the read is served: no other member
/// can have acknowledged more than is applied here.
pub(super) fn end_read(core: &mut Core, requester: ReadRequester, error: &Error) {
    let ReadRequester::Local(to) = requester else {
        return;
    };
    let is_alone = core.is_only_voter() && core.raft().promotable();
    let outcome = match error {
        Error::LogFailed { .. } if is_alone => Ok(()),
        _ => Err(error.clone()),
    };
    core.reply(to, outcome);
}
