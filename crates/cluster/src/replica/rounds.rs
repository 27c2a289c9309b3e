//! The leader's side of its lease on reads: when was the newest round sent that a
//! majority has answered?
//!
//! ```text
//!   context of a heartbeat and of its answer, with reads under a lease:
//!   ┌──────────────────────┬────────────────────────────┬──────────────┐
//!   │ u64 sent, leader's   │ u64 promised, nanoseconds: │ the library's│
//!   │ clock, nanoseconds   │ 0 until the voter fills it │ own          │
//!   └──────────────────────┴────────────────────────────┴──────────────┘
//! ```
//!
//! An answer of the leader's own term answers a heartbeat of this life: an earlier
//! life led in an earlier term. So the moment it was sent travels with it, and
//! doubled and late answers do no harm. A voter says how long its promise is; one
//! that says nothing has given none.
//!
//! A round counts for the members it was sent under: a change of the configuration
//! begins anew. Where the lead was to be handed over there is no lease for the rest
//! of the term, for the wish may arrive much later.

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

/// What a leader knows of promises made to it.
#[derive(Debug)]
pub(super) struct Rounds {
    mode: ReadMode,
    published: Arc<ReadLease>,
    /// What follows is of this term.
    term: u64,
    /// Rounds sent before that count no more.
    since: Instant,
    /// By voter: until when it votes for nobody else, less what clocks may differ.
    promises: BTreeMap<u64, Instant>,
    /// Until when a majority's do.
    until: Instant,
    /// The lead was to be handed over in this term.
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

    /// All that was promised counts no more.
    pub fn withdraw(&mut self) {
        self.published.withdraw();
        self.promises.clear();
        self.until = Instant::default();
    }

    /// Only what is sent from now on counts.
    pub fn restart(&mut self, now: Instant) {
        self.withdraw();
        self.since = now;
    }

    fn forgo(&mut self) {
        self.withdraw();
        self.forgone = true;
    }
}

/// Sent and promised, and the library's own part.
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

/// What a leader may make of a promise: clocks may differ by a tenth.
fn shortened(promised: Duration) -> Duration {
    promised / 10 * 9
}

impl Replica {
    /// Before a message of the consensus leaves this member.
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

    /// A voter has answered a heartbeat.
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

    /// The lease holds as long as a majority's promises do.
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

    /// Whether nobody else can lead now.
    pub(super) fn holds_read_lease(&self) -> bool {
        let rounds = &self.rounds;
        let raft = self.consensus.raft();
        let mine = rounds.term == raft.term && self.lead == Lead::Ready && !rounds.forgone;
        mine && self.clock.now() < rounds.until
    }

    /// Lets others read under the lease as long as this member shows all that any
    /// other may show: what is committed and waits for this member's own disk, a
    /// follower may have applied, and shown, already.
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

    /// Index of the last entry that a majority has, as far as this member knows.
    pub(super) fn committed(&self) -> u64 {
        self.consensus.raft().raft_log.committed
    }

    /// Until when this member may read without asking anyone.
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
        assert_eq!(split(b"12345678"), None, "a round of reads and no stamp");
    }
}
