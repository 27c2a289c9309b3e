//! Leases: the keys that they hold, and when they may end.

use std::collections::{BTreeSet, HashMap};

use super::Case;
use crate::{Change, Entry, Moment, Operation, Request, Rule};

const NANOSECONDS: u64 = 1_000_000_000;

/// What is known of one lease.
#[derive(Default)]
struct Lease<'a> {
    /// The latest moment until which it must live, and the operation that promised it.
    lives: Option<(Moment, &'a Operation)>,
    /// The last renewal that succeeded, by its beginning.
    renewed: Option<&'a Operation>,
    revocations: Vec<&'a Operation>,
    /// Its keys at the revision that the walk has reached.
    keys: BTreeSet<&'a str>,
    /// The revision at which its keys went.
    ended: Option<i64>,
}

/// All of them, at one revision of the ledger.
#[derive(Default)]
pub(super) struct Leases<'a> {
    all: HashMap<i64, Lease<'a>>,
}

impl<'a> Leases<'a> {
    pub fn of(case: &Case<'a>) -> Leases<'a> {
        let mut leases = Leases::default();
        for operation in &case.history.operations {
            match operation.request {
                Request::Grant { lease, seconds } if may_have_happened(operation) => {
                    // Without an answer, the time to live is the one that was asked for.
                    let seconds = operation.answer().map_or(seconds, |it| it.seconds);
                    leases.lives(case, lease, operation, seconds);
                }
                Request::Renew { lease } => {
                    if let Some(answer) = operation.answer().filter(|it| it.succeeded) {
                        leases.lives(case, lease, operation, answer.seconds);
                        let renewed = &mut leases.all.entry(lease).or_default().renewed;
                        if renewed.is_none_or(|before| before.called < operation.called) {
                            *renewed = Some(operation);
                        }
                    }
                }
                Request::Revoke { lease } if may_have_happened(operation) => {
                    let lease = leases.all.entry(lease).or_default();
                    lease.revocations.push(operation);
                }
                _ => {}
            }
        }
        leases
    }

    /// Notes that the lease must live for `seconds` after the call of `since`, by the
    /// recording's clock.
    fn lives(&mut self, case: &Case<'a>, lease: i64, since: &'a Operation, seconds: i64) {
        let time = NANOSECONDS * seconds.max(0).unsigned_abs() * 100;
        let until = since.called + time / (100 + case.history.clock_error_percent);
        let lives = &mut self.all.entry(lease).or_default().lives;
        if lives.is_none_or(|(before, _)| before < until) {
            *lives = Some((until, since));
        }
    }

    /// Whether this entry is the end of a lease. Reports a lease that ended too early.
    pub fn ends(&mut self, case: &mut Case<'a>, entry: &Entry) -> bool {
        let Some(id) = self.holder(entry) else {
            return false;
        };
        let lease = self.all.get_mut(&id).expect("it holds keys");
        let gone: BTreeSet<&str> = entry.changes.iter().map(Change::key).collect();
        if gone != lease.keys {
            return false;
        }
        lease.ended = Some(entry.revision);
        let revoked = lease.revocations.iter().any(|it| {
            let before = case.completed.before(it.called);
            before.is_none_or(|before| before.revision < entry.revision)
        });
        let known = case.completed.first_known(entry.revision);
        if let (false, Some(known), Some((until, renewal))) = (revoked, known, lease.lives)
            && known.at < until
        {
            let short = (until - known.at) as f64 / 1e9;
            let text = format!(
                "lease {id} ended at revision {} at least {short:.3} s too early",
                entry.revision
            );
            case.blame_known(Rule::Lease, text, &[renewal], Some(known));
        }
        true
    }

    /// The lease that holds the first key, if the entry only deletes keys.
    fn holder(&self, entry: &Entry) -> Option<i64> {
        let first = entry.changes.first()?;
        let deletes = |change: &Change| matches!(change, Change::Delete { .. });
        if !entry.changes.iter().all(deletes) {
            return None;
        }
        let holds = |lease: &Lease<'_>| lease.keys.contains(first.key());
        let mut holders = self.all.iter().filter(|(_, lease)| holds(lease));
        holders.next().map(|(id, _)| *id)
    }

    /// Advances to the next revision.
    pub fn follow(&mut self, case: &mut Case<'a>, entry: &'a Entry) {
        for change in &entry.changes {
            if let Some(before) = case.ledger.at(change.key(), entry.revision - 1)
                && let Some(lease) = self.all.get_mut(&before.lease)
            {
                lease.keys.remove(change.key());
            }
            let Change::Put(version) = change else {
                continue;
            };
            if version.lease == 0 {
                continue;
            }
            let lease = self.all.entry(version.lease).or_default();
            lease.keys.insert(&version.key);
            if let Some(ended) = lease.ended {
                let text = format!(
                    "revision {} attaches to lease {}, which ended at revision {ended}",
                    entry.revision, version.lease
                );
                case.blame(Rule::Lease, text, &[]);
            }
        }
    }

    /// Renewals after the end, and what revocations left behind.
    pub fn conclude(&self, case: &mut Case<'a>) {
        for (id, lease) in &self.all {
            let ended = lease.ended;
            let known = ended.and_then(|ended| case.completed.first_known(ended));
            if let (Some(known), Some(renewal)) = (known, lease.renewed)
                && known.at < renewal.called
            {
                let text = format!("lease {id} was renewed after its keys had gone");
                case.blame_known(Rule::Lease, text, &[renewal], Some(known));
            }
            let revoked = lease.revocations.iter().filter(|it| it.answer().is_some());
            let revoked: Vec<&Operation> = revoked.copied().collect();
            if let ([first, ..], false) = (&revoked[..], lease.keys.is_empty()) {
                let text = format!("lease {id} was revoked, and still holds {:?}", lease.keys);
                case.blame(Rule::Lease, text, &[first]);
            }
        }
    }
}

fn may_have_happened(operation: &Operation) -> bool {
    operation.answer().is_some() || operation.is_unknown()
}
