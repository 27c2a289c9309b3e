//! What must be true of leases.
//!
//! - A lease that somebody was told has so many seconds, when they asked or later,
//!   does not end before those have passed since they asked, by the fastest clock;
//! - one that somebody was told is gone, is gone.
//!
//! Every lease has an id of its own, is granted once, and ends only because nobody
//! renewed it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use etcd_api::etcdserverpb::LeaseGrantResponse;
use revisions::{LeaseAnswer, Reader};

/// What a client was told of a lease, and when it had asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    id: i64,
    asked: Duration,
    /// `None`: there is no such lease. Negative: overdue.
    seconds: Option<i64>,
    is_renewal: bool,
    is_grant: bool,
}

impl Told {
    pub fn granted(asked: Duration, response: &LeaseGrantResponse) -> Told {
        Told {
            id: response.id,
            asked,
            seconds: Some(response.ttl),
            is_renewal: false,
            is_grant: true,
        }
    }

    pub fn answered(asked: Duration, id: i64, answer: &LeaseAnswer) -> Told {
        let (of, seconds) = match answer {
            LeaseAnswer::KeepAlive(answer) => (answer.id, Some(answer.ttl).filter(|&it| it > 0)),
            // An overdue lease has a granted time still, one that is gone has none.
            LeaseAnswer::TimeToLive(answer) => {
                (answer.id, (answer.granted_ttl > 0).then_some(answer.ttl))
            }
        };
        assert_eq!(of, id, "an answer about another lease");
        Told {
            id,
            asked,
            seconds,
            is_renewal: matches!(answer, LeaseAnswer::KeepAlive(_)),
            is_grant: false,
        }
    }
}

/// Watches the leases of a run.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// What the fastest clock shows of a second, in milliseconds.
    fastest_permille: u32,
    told: Vec<Told>,
    /// By member: how far it had applied, and what was alive.
    seen: BTreeMap<u64, (u64, BTreeSet<i64>)>,
    /// When the first member had applied the end.
    ended: BTreeMap<i64, Duration>,
}

impl Leases {
    pub fn new(drift_permille: u64) -> Leases {
        Leases {
            fastest_permille: 1000 + drift_permille as u32,
            ..Leases::default()
        }
    }

    pub fn told(&mut self, told: Told) {
        self.told.push(told);
    }

    /// A member begins a new life: it may have applied less.
    pub fn restarted(&mut self, member: u64) {
        self.seen.remove(&member);
    }

    /// Looks what has ended at a member.
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

    /// The end: was everything true that clients were told? Returns how many
    /// renewals succeeded, and how many leases have ended.
    pub fn conclude(&self, reader: &Reader) -> (u64, u64) {
        let alive = alive(reader);
        let mut granted: BTreeSet<i64> = BTreeSet::new();
        for told in &self.told {
            let ended = self.ended.get(&told.id);
            if told.is_grant {
                granted.insert(told.id);
            }
            match told.seconds {
                Some(seconds) => {
                    let granted = Duration::from_secs(seconds.max(0) as u64);
                    let until = told.asked + granted * 1000 / self.fastest_permille;
                    assert!(
                        ended.is_none_or(|&ended| ended >= until),
                        "{told:?}, and the lease had ended at {ended:?}"
                    );
                }
                // Asked before it was granted, a lease may come later.
                None => assert!(
                    !(granted.contains(&told.id) && alive.contains(&told.id)),
                    "{told:?}, and the lease is alive in the end"
                ),
            }
        }
        let renewed = |told: &&Told| told.is_renewal && told.seconds.is_some();
        let renewals = self.told.iter().filter(renewed).count();
        (renewals as u64, self.ended.len() as u64)
    }
}

fn alive(reader: &Reader) -> BTreeSet<i64> {
    let leases = reader.lease_leases().leases;
    leases.into_iter().map(|lease| lease.id).collect()
}
