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
//! An answer in the leader's own term answers a heartbeat of this incarnation, because an earlier
//! one led in an earlier term. So the moment of sending travels with the heartbeat and its
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
use raft::eraftpb::Message;

use super::replica_core::Core;
use crate::read_lease::nanos;
use crate::{Mutant, ReadLease, ReadMode};

const STAMP_BYTES: usize = 8;

/// The voters' promises to this leader, and the lease that follows from them.
#[derive(Debug)]
pub(super) struct LeaderLease {
    /// The lease as readers on other threads see it.
    pub published: Arc<ReadLease>,
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

impl LeaderLease {
    pub fn new(published: Arc<ReadLease>) -> LeaderLease {
        LeaderLease {
            published,
            term: 0,
            since: Instant::default(),
            promises: BTreeMap::new(),
            until: Instant::default(),
            forgone: false,
        }
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

    /// Gives the lease up for the rest of the term, because a member is asked to stand for
    /// election.
    pub fn forgo(&mut self, term: u64) {
        self.enter(term);
        self.withdraw();
        self.forgone = true;
    }

    /// Adds the moment of sending to a heartbeat.
    pub fn stamp_heartbeat(&self, core: &Core, heartbeat: &mut Message) {
        if core.options.read_mode == ReadMode::Lease {
            let sent_nanos = nanos(core.now().since_origin());
            let stamp = Stamp {
                sent_nanos,
                promised_nanos: 0,
            };
            heartbeat.context = stamp.join(&heartbeat.context).into();
        }
    }

    /// Takes the promise from a voter's answer to a heartbeat, and restores the Raft library's
    /// own context.
    pub fn take_promise(&mut self, core: &Core, answer: &mut Message, now: Instant) {
        let context = std::mem::take(&mut answer.context);
        let Some((stamp, own)) = Stamp::split(&context) else {
            answer.context = context;
            return;
        };
        answer.context = context.slice_ref(own);
        let leads = core.is_raft_leader() && core.raft().term == answer.term;
        let mut sent = Instant::from_origin(Duration::from_nanos(stamp.sent_nanos));
        if !leads || core.options.read_mode != ReadMode::Lease || sent > now {
            return;
        }
        self.enter(answer.term);
        if sent <= self.since {
            return;
        }
        if core.breaks(Mutant::LeaseFromTheReceiveTime) {
            sent = now;
        }
        let until = sent + shortened(Duration::from_nanos(stamp.promised_nanos));
        let known = self.promises.entry(answer.from).or_default();
        *known = until.max(*known);
        self.renew(core);
    }

    /// Sets the end of the lease to the moment until which the promises of a majority hold.
    fn renew(&mut self, core: &Core) {
        let promises = self.promises.iter();
        let mut promises: Vec<(Instant, u64)> =
            promises.map(|(&voter, &until)| (until, voter)).collect();
        promises.sort_unstable();
        let mut bound = HashSet::default();
        bound.insert(core.member_id);
        let prs = core.raft().prs();
        for (until, voter) in promises.into_iter().rev() {
            bound.insert(voter);
            if prs.has_quorum(&bound) {
                self.until = until;
                return;
            }
        }
    }

    /// Whether no other member can lead now. `ready` says that this member leads and evaluates
    /// commands.
    pub fn holds(&self, core: &Core, ready: bool) -> bool {
        let mine = self.term == core.raft().term && ready && !self.forgone;
        mine && core.now() < self.until
    }

    /// Publishes the lease to readers on other threads, or withdraws it. The lease is
    /// published only while everything that is committed is applied here: entries that are
    /// committed and wait for this member's own disk may be applied, and visible, at a
    /// follower already.
    pub fn publish(&self, core: &Core, ready: bool) {
        if core.options.read_mode != ReadMode::Lease {
            return;
        }
        let shows_all = core.engine().applied_index() >= core.committed()
            || core.breaks(Mutant::LeaseBehindFollowers);
        if shows_all && self.holds(core, ready) {
            self.published.extend(self.until);
        } else {
            self.published.withdraw();
        }
    }
}

/// Data that a heartbeat and its answer carry besides the Raft library's own context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    /// When the leader sent the heartbeat, on its own clock.
    sent_nanos: u64,
    /// How long the voter's promise holds; 0 until the voter fills it.
    promised_nanos: u64,
}

impl Stamp {
    /// Splits a context into the stamp and the Raft library's own part.
    fn split(context: &[u8]) -> Option<(Stamp, &[u8])> {
        let (sent, rest) = context.split_first_chunk::<STAMP_BYTES>()?;
        let (promised, own) = rest.split_first_chunk::<STAMP_BYTES>()?;
        let stamp = Stamp {
            sent_nanos: u64::from_le_bytes(*sent),
            promised_nanos: u64::from_le_bytes(*promised),
        };
        Some((stamp, own))
    }

    fn join(self, own: &[u8]) -> Vec<u8> {
        let (sent, promised) = (self.sent_nanos, self.promised_nanos);
        [&sent.to_le_bytes()[..], &promised.to_le_bytes(), own].concat()
    }
}

/// Adds a voter's promise of this length to its answer to a heartbeat.
pub(super) fn stamp_promise(answer: &mut Message, promised: Duration) {
    if let Some((stamp, own)) = Stamp::split(&answer.context) {
        let promised_nanos = nanos(promised);
        let stamp = Stamp {
            promised_nanos,
            ..stamp
        };
        answer.context = stamp.join(own).into();
    }
}

/// The part of a promise that a leader may use: clocks may differ by a tenth.
fn shortened(promised: Duration) -> Duration {
    promised / 10 * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_taken_apart_as_it_was_put_together() {
        let stamp = Stamp {
            sent_nanos: 7,
            promised_nanos: 9,
        };
        let context = stamp.join(b"round");
        assert_eq!(Stamp::split(&context), Some((stamp, &b"round"[..])));
        assert_eq!(Stamp::split(&stamp.join(&[])), Some((stamp, &[][..])));
        assert_eq!(
            Stamp::split(b"12345678"),
            None,
            "a round of reads without a stamp"
        );
    }
}
