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
use revisions::{LeaseAnswer, Reader};

/// An answer about a lease, with the time of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    id: i64,
    asked: Duration,
    /// Remaining time in seconds; negative if overdue, `None` if the lease does not exist.
    seconds: Option<i64>,
    is_renewal: bool,
    is_grant: bool,
}

impl Report {
    pub fn granted(asked: Duration, response: &LeaseGrantResponse) -> Report {
        Report {
            id: response.id,
            asked,
            seconds: Some(response.ttl),
            is_renewal: false,
            is_grant: true,
        }
    }

    pub fn answered(asked: Duration, id: i64, answer: &LeaseAnswer) -> Report {
        let (of, seconds) = match answer {
            LeaseAnswer::KeepAlive(answer) => (answer.id, Some(answer.ttl).filter(|&it| it > 0)),
            // An overdue lease still has a granted time; a lease that does not exist has none.
            LeaseAnswer::TimeToLive(answer) => {
                (answer.id, (answer.granted_ttl > 0).then_some(answer.ttl))
            }
        };
        assert_eq!(of, id, "an answer about another lease");
        Report {
            id,
            asked,
            seconds,
            is_renewal: matches!(answer, LeaseAnswer::KeepAlive(_)),
            is_grant: false,
        }
    }
}

/// Collects the answers about leases of a run and checks them.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Milliseconds that the fastest clock advances in a second.
    fastest_permille: u32,
    reports: Vec<Report>,
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

    pub fn report(&mut self, report: Report) {
        self.reports.push(report);
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
        let alive = alive(reader);
        let mut granted: BTreeSet<i64> = BTreeSet::new();
        for report in &self.reports {
            let ended = self.ended.get(&report.id);
            if report.is_grant {
                granted.insert(report.id);
            }
            match report.seconds {
                Some(seconds) => {
                    let granted = Duration::from_secs(seconds.max(0) as u64);
                    let until = report.asked + granted * 1000 / self.fastest_permille;
                    assert!(
                        ended.is_none_or(|&ended| ended >= until),
                        "{report:?}, and the lease had ended at {ended:?}"
                    );
                }
                // A request before the grant may be answered "does not exist" although the
                // lease exists later.
                None => assert!(
                    !(granted.contains(&report.id) && alive.contains(&report.id)),
                    "{report:?}, and the lease is alive in the end"
                ),
            }
        }
        let renewed = |report: &&Report| report.is_renewal && report.seconds.is_some();
        let renewals = self.reports.iter().filter(renewed).count();
        (renewals as u64, self.ended.len() as u64)
    }
}

fn alive(reader: &Reader) -> BTreeSet<i64> {
    let leases = reader.lease_leases().leases;
    leases.into_iter().map(|lease| lease.id).collect()
}
