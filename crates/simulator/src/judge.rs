//! What must be true of every run.
//!
//! Every write that changes something has a revision of its own, and every
//! read says at which revision it looked. So the order in which everything
//! happened is known, and it is enough to ask whether it agrees with real time:
//!
//! - the histories of all members are beginnings of one history;
//! - at most one member leads in a term;
//! - a write that was acknowledged is in that history at its revision, as it was
//!   asked for;
//! - a read shows what the history says at its revision;
//! - while a member reads under its lease, nobody leads in a later term;
//! - what ended before something else began has a revision that is not greater,
//!   and a smaller one than a write that began later;
//! - what a member has applied never goes back while it runs, and a snapshot that
//!   it has installed is what the history says at its revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use cluster::Replica;
use etcd_api::etcdserverpb::RangeRequest;
use etcd_api::etcdserverpb::request_op::Request;
use revisions::{Command, Reader, Response};

use crate::leases::Leases;

/// What a client has seen.
#[derive(Clone, Debug)]
pub(crate) enum Observed {
    /// A command was carried out; `value` is what it put, if it did.
    Write {
        key: Vec<u8>,
        revision: i64,
        value: Option<Vec<u8>>,
        /// It took a revision.
        changed: bool,
    },
    /// A key was looked at.
    Read {
        key: Vec<u8>,
        revision: i64,
        value: Option<Vec<u8>>,
    },
}

impl Observed {
    /// From the answer to a command.
    pub fn write(command: &Command, response: &Response) -> Observed {
        let mut response = response.clone();
        let revision = response.header_mut().revision;
        let (key, value, changed) = match (command, &response) {
            (Command::Put(put), _) => (put.key.to_vec(), Some(put.value.to_vec()), true),
            (Command::DeleteRange(delete), Response::DeleteRange(answer)) => {
                (delete.key.to_vec(), None, answer.deleted > 0)
            }
            (Command::Txn(txn), Response::Txn(answer)) => {
                let put = txn
                    .success
                    .iter()
                    .find_map(|operation| match &operation.request {
                        Some(Request::RequestPut(put)) => Some(put),
                        _ => None,
                    });
                let put = put.expect("the clients' transactions put");
                let value = answer.succeeded.then(|| put.value.to_vec());
                (put.key.to_vec(), value, answer.succeeded)
            }
            _ => (Vec::new(), None, false),
        };
        Observed::Write {
            key,
            revision,
            value,
            changed,
        }
    }

    fn revision(&self) -> i64 {
        match self {
            Observed::Write { revision, .. } | Observed::Read { revision, .. } => *revision,
        }
    }

    fn takes_revision(&self) -> bool {
        matches!(self, Observed::Write { changed: true, .. })
    }
}

/// How a run went, if it went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Answers that clients got.
    pub answers: u64,
    /// Revisions in the end.
    pub revisions: i64,
    /// Terms that had a leader.
    pub terms: u64,
    /// Losses of power, and of processes.
    pub crashes: u64,
    /// Times that so many lost power at once that something may have been lost.
    pub blackouts: u64,
    /// Shortages of room, of a quota or of descriptors.
    pub shortages: u64,
    /// Lives that began with less than was acknowledged, for all anyone knew.
    pub returns: u64,
    /// Stops as an operator does them.
    pub stops: u64,
    /// Times that the lead was handed over.
    pub transfers: u64,
    /// Renewals of leases that succeeded.
    pub renewals: u64,
    /// Leases that have ended.
    pub leases_ended: u64,
    /// Members that joined, and members that were removed.
    pub joins: u64,
    /// See `joins`.
    pub removals: u64,
    /// Snapshots that were installed.
    pub snapshots: u64,
    /// Reads that nobody was asked for.
    pub lease_reads: u64,
    /// Frames that a hostile peer sent.
    pub hostile_frames: u64,
    /// Of these, those that were understood and given to a replica.
    pub hostile_messages: u64,
    /// Messages in which a member with bad memory flipped a bit.
    pub flipped_frames: u64,
    /// Of these, those that were understood and given to a replica.
    pub flipped_messages: u64,
    /// Everything that happened, in a number: equal runs have equal ones.
    pub fingerprint: u64,
}

/// A change of a key: its bytes, `None` for a deletion.
type Changes = Vec<(Vec<u8>, bool, Bytes)>;

/// Watches a run.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// By revision, from whoever had it first.
    history: BTreeMap<i64, Changes>,
    /// Up to where each member was compared.
    compared: BTreeMap<u64, i64>,
    /// Index of what each member had applied, and of the snapshot that it had
    /// installed last, at the last look.
    applied: BTreeMap<u64, (u64, u64)>,
    pub snapshots: u64,
    leaders: BTreeMap<u64, u64>,
    observed: Vec<(Duration, Duration, Observed)>,
    pub leases: Leases,
}

impl Judge {
    /// Of members whose clocks run so much faster or slower than time, at most.
    pub fn new(drift_permille: u64) -> Judge {
        Judge {
            leases: Leases::new(drift_permille),
            ..Judge::default()
        }
    }

    pub fn observe(&mut self, asked: Duration, answered: Duration, what: Observed) {
        self.observed.push((asked, answered, what));
    }

    /// A member that leads in a term.
    pub fn leads(&mut self, term: u64, member: u64) {
        let known = *self.leaders.entry(term).or_insert(member);
        assert_eq!(known, member, "two members lead in term {term}");
    }

    /// What was written after this revision may be lost: nobody is held to what they
    /// were told of it.
    pub fn let_go(&mut self, revision: i64, drift_permille: u64) {
        drop(self.history.split_off(&(revision + 1)));
        self.observed
            .retain(|(.., what)| what.revision() <= revision);
        self.leases = Leases::new(drift_permille);
    }

    /// A member begins a new life: what it has applied may be less.
    pub fn restarted(&mut self, member: u64) {
        self.compared.remove(&member);
        self.applied.remove(&member);
        self.leases.restarted(member);
    }

    /// What a member has applied never goes back; and if a snapshot was installed
    /// since the last look, it is compared.
    pub fn look(&mut self, member: u64, replica: &Replica) {
        let reader = replica.reader();
        let applied = replica.applied_index();
        let snapshot = replica.installed();
        let index = snapshot.map_or(0, |(index, _)| index);
        let (before, known) = self
            .applied
            .insert(member, (applied, index))
            .unwrap_or((0, 0));
        assert!(
            applied >= before,
            "member {member:x} had applied entry {before}, and now {applied}"
        );
        if let Some((index, revision)) = snapshot.filter(|_| index != known) {
            assert!(
                index > before,
                "a snapshot of entry {index} over entry {before}"
            );
            self.snapshots += 1;
            self.compare_snapshot(member, revision, reader);
        }
    }

    /// Every key that ever was is what it was at the revision.
    fn compare_snapshot(&self, member: u64, revision: i64, reader: &Reader) {
        if revision < reader.compacted() {
            return;
        }
        let keys = self.history.values().flatten().map(|(key, ..)| key);
        for key in keys.collect::<BTreeSet<_>>() {
            let request = RangeRequest {
                key: key.clone().into(),
                revision,
                ..RangeRequest::default()
            };
            let found = reader.range(&request).expect("it is not compacted");
            let found = found.kvs.first().map(|kv| kv.0.clone());
            let known = self.at(key, revision);
            assert!(
                found == known,
                "member {member:x} has installed {found:?} at revision {revision}, not {known:?}"
            );
        }
    }

    /// Compares what a member has applied since the last look.
    pub fn compare(&mut self, member: u64, reader: &Reader) {
        let compared = self.compared.entry(member).or_insert(1);
        // What a compaction leaves of its own revision may be less.
        let from = (*compared + 1).max(reader.compacted() + 1);
        let newest = reader.revision();
        if newest <= *compared {
            return;
        }
        let history = reader.engine().history(from).expect("it is not compacted");
        for changes in history {
            let changes = changes.expect("what is applied can be read");
            let found: Changes = changes
                .versions
                .iter()
                .map(|it| (it.key.to_vec(), it.tombstone, it.kv.clone()))
                .collect();
            let known = self
                .history
                .entry(changes.main)
                .or_insert_with(|| found.clone());
            assert!(
                *known == found,
                "member {member:x} has another history at revision {}: {found:?}, not {known:?}",
                changes.main
            );
        }
        *compared = newest;
    }

    /// The end: does everything that was observed agree?
    pub fn conclude(&self) -> (u64, i64, u64) {
        self.check_contents();
        self.check_order();
        let last = self.history.keys().next_back().copied().unwrap_or(1);
        (self.observed.len() as u64, last, self.leaders.len() as u64)
    }

    fn check_contents(&self) {
        for (asked, _, what) in &self.observed {
            match what {
                Observed::Write {
                    key,
                    revision,
                    value,
                    changed: true,
                } => {
                    let changes = self.history.get(revision);
                    let changes = changes.unwrap_or_else(|| {
                        panic!("acknowledged and lost: {what:?}, asked at {asked:?}")
                    });
                    let same = changes.iter().any(|(known, tombstone, kv)| {
                        known == key && *tombstone == value.is_none() && holds(kv, value)
                    });
                    assert!(same, "{what:?} is not in {changes:?}");
                }
                Observed::Write { .. } => {}
                Observed::Read {
                    key,
                    revision,
                    value,
                } => {
                    let found = self.at(key, *revision);
                    let same = match (&found, value) {
                        (None, None) => true,
                        (Some(kv), Some(_)) => holds(kv, value),
                        _ => false,
                    };
                    assert!(same, "{what:?}, where the history has {found:?}");
                }
            }
        }
    }

    /// A key's bytes at a revision.
    fn at(&self, key: &[u8], revision: i64) -> Option<Bytes> {
        let before = self.history.range(..=revision).rev();
        let mut all = before.flat_map(|(_, changes)| changes.iter().rev());
        let (_, tombstone, kv) = all.find(|(known, ..)| known == key)?;
        (!tombstone).then(|| kv.clone())
    }

    fn check_order(&self) {
        let mut by_start: Vec<_> = self.observed.iter().collect();
        by_start.sort_by_key(|(asked, ..)| *asked);
        let mut by_end: Vec<_> = self.observed.iter().collect();
        by_end.sort_by_key(|(_, answered, _)| *answered);
        let mut ended = by_end.into_iter().peekable();
        let mut newest = (0, None);
        for (asked, _, what) in by_start {
            while let Some((_, _, before)) = ended.next_if(|(_, answered, _)| answered < asked) {
                if before.revision() > newest.0 {
                    newest = (before.revision(), Some(before));
                }
            }
            let fits = if what.takes_revision() {
                what.revision() > newest.0
            } else {
                what.revision() >= newest.0
            };
            assert!(fits, "{what:?} began after {:?} had ended", newest.1);
        }
    }
}

/// Whether an encoded `KeyValue` has this value; a deletion has none.
fn holds(kv: &Bytes, value: &Option<Vec<u8>>) -> bool {
    match value {
        None => true,
        Some(value) => etcd_api::EncodedKeyValue(kv.clone()).value() == &value[..],
    }
}
