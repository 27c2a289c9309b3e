//! Invariants of leases.
//!
//! - If an answer said that a lease has a remaining time, the lease does not end before this
//!   time has passed since the request, by the fastest clock.
//! - If an answer said that a lease does not exist, it does not exist at the end.
//!
//! Every lease has an id of its own, is granted once, and ends only for lack of renewals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use etcd_api::etcdserverpb::LeaseGrantResponse;
use revisions::{LeaseResponse, Reader};

/// Collects the answers about leases of a run and checks them.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Milliseconds that the fastest clock advances in a second.
    fastest_permille: u32,
    /// Times until which leases must live, by the answers of grants and others.
    lives: BTreeMap<i64, Duration>,
    granted: BTreeSet<i64>,
    /// Granted leases that did not exist any more by a later answer.
    gone: BTreeSet<i64>,
    /// Renewals that succeeded.
    renewals: u64,
    /// Applied index and existing leases of each member at the last look.
    seen: BTreeMap<u64, (u64, BTreeSet<i64>)>,
    /// Time at which the first member had applied the end of a lease.
    ended: BTreeMap<i64, Duration>,
}

impl Leases {
    pub fn new(drift_permille: u64) -> Leases {
        Leases {
            fastest_permille: 1000 + drift_permille as u32,
            ..Leases::default()
        }
    }

    /// Takes the answer to a request for a lease.
    pub fn granted(&mut self, asked: Duration, response: &LeaseGrantResponse) {
        self.granted.insert(response.id);
        self.remains(response.id, asked, response.ttl);
    }

    /// Takes the answer to a question about a lease.
    pub fn answered(&mut self, asked: Duration, id: i64, answer: &LeaseResponse) {
        let (of, is_renewal, exists, seconds) = match answer {
            LeaseResponse::KeepAlive(it) => (it.id, true, it.ttl > 0, it.ttl),
            // An overdue lease still has a granted time; a lease that does not exist has none.
            LeaseResponse::TimeToLive(it) => (it.id, false, it.granted_ttl > 0, it.ttl),
        };
        assert_eq!(of, id, "an answer about another lease");
        if exists {
            self.renewals += u64::from(is_renewal);
            self.remains(id, asked, seconds);
        } else if self.granted.contains(&id) {
            // A request before the grant may be answered "does not exist" although the lease
            // exists later.
            self.gone.insert(id);
        }
    }

    /// Notes that a lease had `seconds` left after a request; fewer than none if it is overdue.
    fn remains(&mut self, id: i64, asked: Duration, seconds: i64) {
        let time = Duration::from_secs(seconds.max(0) as u64);
        let until = asked + time * 1000 / self.fastest_permille;
        let lives = self.lives.entry(id).or_default();
        *lives = until.max(*lives);
    }

    /// Records that a member restarted: it may have applied less.
    pub fn restarted(&mut self, member: u64) {
        self.seen.remove(&member);
    }

    /// Records the leases that have ended at a member since the last look.
    pub fn look(&mut self, now: Duration, member: u64, reader: &Reader) {
        let applied = reader.engine().applied_index();
        let known = self.seen.get(&member);
        if known.is_some_and(|(index, _)| *index == applied) {
            return;
        }
        let alive = alive(reader);
        if let Some((_, before)) = known {
            for &id in before.difference(&alive) {
                self.ended.entry(id).or_insert(now);
            }
        }
        self.seen.insert(member, (applied, alive));
    }

    /// Checks all answers at the end of a run. Returns the numbers of successful renewals and
    /// of ended leases.
    pub fn conclude(&self, reader: &Reader) -> (u64, u64) {
        for (id, until) in &self.lives {
            let ended = self.ended.get(id);
            assert!(
                ended.is_none_or(|ended| ended >= until),
                "lease {id} had until {until:?}, and had ended at {ended:?}"
            );
        }
        let alive = alive(reader);
        let back: Vec<&i64> = self.gone.intersection(&alive).collect();
        assert!(
            back.is_empty(),
            "leases {back:?} did not exist, and are alive in the end"
        );
        (self.renewals, self.ended.len() as u64)
    }
}

fn alive(reader: &Reader) -> BTreeSet<i64> {
    let leases = reader.lease_leases().leases;
    leases.into_iter().map(|lease| lease.id).collect()
}
