//! The leader's side of its lease on reads. The lease follows from the moment at which the
//! leader sent the newest round of heartbeats that a majority has answered.
//!
//! ```text
//!   context of a heartbeat and of its answer, with reads under a lease:
//!   ┌──────────────────────┬────────────────────────────┬──────────────┐
//!   │ u64 sent, leader's   │ u64 promised, nanoseconds: │ the library's│
//!   │ clock, nanoseconds   │ 0 until the voter fills it │ own          │
//!   └──────────────────────┴────────────────────────────┴──────────────┘
//! ```
//!
//! An answer in the leader's own term answers a heartbeat of this life, because an earlier
//! life led in an earlier term. So the moment of sending travels with the heartbeat and its
//! answer, and doubled and late answers do no harm. A voter says how long its promise
//! holds; a voter that says nothing has given none.
//!
//! A round counts only for the configuration under which it was sent: a change of the
//! configuration invalidates earlier rounds. After a leader has begun to hand leadership
//! over, it has no lease for the rest of the term, because the request to stand for
//! election may reach the other member much later.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use environment::Instant;
use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::{Lead, Replica};
use crate::read_lease::nanos;
use crate::{Mutant, ReadLease, ReadMode};

const STAMP_BYTES: usize = 8;

/// The voters' promises to this leader, and the lease that follows from them.
#[derive(Debug)]
pub(super) struct Rounds {
    mode: ReadMode,
    published: Arc<ReadLease>,
    /// The term to which the fields below belong.
    term: u64,
    /// Rounds that were sent before this moment do not count.
    since: Instant,
    /// By voter: until when it votes for no other member, less the allowed difference of
    /// the clocks.
    promises: BTreeMap<u64, Instant>,
    /// Until when the promises of a majority hold.
    until: Instant,
    /// A transfer of leadership was begun in this term.
    forgone: bool,
}

impl Rounds {
    pub fn new(mode: ReadMode, published: Arc<ReadLease>) -> Rounds {
        Rounds {
            mode,
            published,
            term: 0,
            since: Instant::default(),
            promises: BTreeMap::new(),
            until: Instant::default(),
            forgone: false,
        }
    }

    pub fn published(&self) -> &Arc<ReadLease> {
        &self.published
    }

    fn enter(&mut self, term: u64) {
        if term != self.term {
            self.withdraw();
            self.term = term;
            self.forgone = false;
        }
    }

    /// Drops all promises, and the published lease.
    pub fn withdraw(&mut self) {
        self.published.withdraw();
        self.promises.clear();
        self.until = Instant::default();
    }

    /// Drops all promises; only rounds that are sent after `now` count.
    pub fn restart(&mut self, now: Instant) {
        self.withdraw();
        self.since = now;
    }

    fn forgo(&mut self) {
        self.withdraw();
        self.forgone = true;
    }
}

/// Splits a context into the moment of sending, the promise, and the Raft library's own part.
fn split(context: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (sent, rest) = context.split_first_chunk::<STAMP_BYTES>()?;
    let (promised, own) = rest.split_first_chunk::<STAMP_BYTES>()?;
    Some((
        u64::from_le_bytes(*sent),
        u64::from_le_bytes(*promised),
        own,
    ))
}

fn join(sent: u64, promised: u64, own: &[u8]) -> Vec<u8> {
    [&sent.to_le_bytes()[..], &promised.to_le_bytes(), own].concat()
}

/// The part of a promise that a leader may use: clocks may differ by a tenth.
fn shortened(promised: Duration) -> Duration {
    promised / 10 * 9
}

impl Replica {
    /// Adds to a Raft message what this crate sends with it, before it is sent: the moment of
    /// a heartbeat, the promise in its answer, the life in an answer to an append. A request
    /// to stand for election ends the lease.
    pub(super) fn stamp(&mut self, message: &mut Message) {
        match message.get_msg_type() {
            MessageType::MsgHeartbeat if self.rounds.mode == ReadMode::Lease => {
                let sent = nanos(self.clock.now().since_origin());
                message.context = join(sent, 0, &message.context).into();
            }
            MessageType::MsgHeartbeatResponse => {
                if let Some((sent, _, own)) = split(&message.context) {
                    let promised = nanos(self.promise.length());
                    message.context = join(sent, promised, own).into();
                }
            }
            MessageType::MsgAppendResponse => self.sign(message),
            MessageType::MsgTimeoutNow if !self.breaks(Mutant::KeepsItsLeaseInATransfer) => {
                self.rounds.enter(message.term);
                self.rounds.forgo();
            }
            _ => {}
        }
    }

    /// Takes the promise from a voter's answer to a heartbeat, and restores the Raft library's
    /// own context.
    pub(super) fn note_promise(&mut self, message: &mut Message, now: Instant) {
        let context = std::mem::take(&mut message.context);
        let Some((sent, promised, own)) = split(&context) else {
            message.context = context;
            return;
        };
        message.context = context.slice_ref(own);
        let raft = self.consensus.raft();
        let leads = raft.state == StateRole::Leader && raft.term == message.term;
        let mut sent = Instant::from_origin(Duration::from_nanos(sent));
        if !leads || self.rounds.mode != ReadMode::Lease || sent > now {
            return;
        }
        self.rounds.enter(message.term);
        if sent <= self.rounds.since {
            return;
        }
        if self.breaks(Mutant::LeaseFromTheReceiveTime) {
            sent = now;
        }
        let until = sent + shortened(Duration::from_nanos(promised));
        let known = self.rounds.promises.entry(message.from).or_default();
        *known = until.max(*known);
        self.renew_read_lease();
    }

    /// Sets the end of the lease to the moment until which the promises of a majority hold.
    fn renew_read_lease(&mut self) {
        let promises = self.rounds.promises.iter();
        let mut promises: Vec<(Instant, u64)> =
            promises.map(|(&voter, &until)| (until, voter)).collect();
        promises.sort_unstable();
        let mut bound = HashSet::default();
        bound.insert(self.member_id);
        let prs = self.consensus.raft().prs();
        for (until, voter) in promises.into_iter().rev() {
            bound.insert(voter);
            if prs.has_quorum(&bound) {
                self.rounds.until = until;
                return;
            }
        }
    }

    /// Whether no other member can lead now.
    pub(super) fn holds_read_lease(&self) -> bool {
        let rounds = &self.rounds;
        let raft = self.consensus.raft();
        let mine = rounds.term == raft.term && self.lead == Lead::Ready && !rounds.forgone;
        mine && self.clock.now() < rounds.until
    }

    /// Publishes the lease to readers on other threads, or withdraws it. The lease is
    /// published only while everything that is committed is applied here: entries that are
    /// committed and wait for this member's own disk may be applied, and visible, at a
    /// follower already.
    pub(super) fn publish_read_lease(&mut self) {
        if self.rounds.mode != ReadMode::Lease {
            return;
        }
        let shows_all = self.engine.applied_index() >= self.committed()
            || self.breaks(Mutant::LeaseBehindFollowers);
        if shows_all && self.holds_read_lease() {
            self.rounds.published.extend(self.rounds.until);
        } else {
            self.rounds.published.withdraw();
        }
    }

    /// The commit index, as far as this member knows.
    pub(super) fn committed(&self) -> u64 {
        self.consensus.raft().raft_log.committed
    }

    /// The lease under which this member may serve reads without asking other members.
    pub fn read_lease(&self) -> &Arc<ReadLease> {
        self.rounds.published()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_taken_apart_as_it_was_put_together() {
        let context = join(7, 9, b"round");
        assert_eq!(split(&context), Some((7, 9, &b"round"[..])));
        assert_eq!(split(&join(1, 0, &[])), Some((1, 0, &[][..])));
        assert_eq!(split(b"12345678"), None, "a round of reads without a stamp");
    }
}
