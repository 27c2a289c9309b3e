//! The judge: invariants of every run.
//!
//! Every write that changes something has a revision of its own, and every read reports the
//! revision that it saw. The order of all operations is therefore known, and the judge only
//! checks that it agrees with real time and with the answers:
//!
//! - the histories of all members are prefixes of one history;
//! - at most one member leads in a term;
//! - an acknowledged write is in that history at its revision, with the requested value;
//! - a read returns the history's value at its revision;
//! - while a member reads under its lease, no member leads in a later term;
//! - if an operation ended before another began, its revision is not greater, and smaller if
//!   the later one is a write that changed something;
//! - the applied index of a member never decreases while it runs, and a snapshot that it has
//!   installed equals the history at its revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use cluster::Replica;
use etcd_api::etcdserverpb::RangeRequest;
use etcd_api::etcdserverpb::request_op::Request;
use revisions::{Command, Reader, Response};

use crate::leases::Leases;

/// An answered operation of a client.
#[derive(Clone, Debug)]
pub(crate) enum Observed {
    /// A command was executed; `value` is the value that it put, if any.
    Write {
        key: Vec<u8>,
        revision: i64,
        value: Option<Vec<u8>>,
        /// The command changed something, and so took a revision.
        changed: bool,
    },
    /// A key was read.
    Read {
        key: Vec<u8>,
        revision: i64,
        value: Option<Vec<u8>>,
    },
}

impl Observed {
    /// The observation of a command's answer.
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

/// Counts of a run that violated no invariant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Answers that clients received.
    pub answers: u64,
    /// Last revision.
    pub revisions: i64,
    /// Terms that had a leader.
    pub terms: u64,
    /// Losses of power, and killed processes.
    pub crashes: u64,
    /// Losses of power of too many members at once: acknowledged writes may be lost.
    pub blackouts: u64,
    /// Shortages of disk space, of a quota or of descriptors.
    pub shortages: u64,
    /// Starts of members that may lack entries which they have acknowledged.
    pub returns: u64,
    /// Orderly stops, as by an operator.
    pub stops: u64,
    /// Transfers of leadership.
    pub transfers: u64,
    /// Renewals of leases that succeeded.
    pub renewals: u64,
    /// Leases that have ended.
    pub leases_ended: u64,
    /// Members that joined.
    pub joins: u64,
    /// Members that were removed.
    pub removals: u64,
    /// Snapshots that were installed.
    pub snapshots: u64,
    /// Reads under a lease, which need no confirmation by other members.
    pub lease_reads: u64,
    /// Frames that the hostile peer sent.
    pub hostile_frames: u64,
    /// Frames of the hostile peer that decoded and reached a replica.
    pub hostile_messages: u64,
    /// Messages in which a member with bad memory flipped a bit.
    pub flipped_frames: u64,
    /// Flipped messages that decoded and reached a replica.
    pub flipped_messages: u64,
    /// Hash of the whole run: equal runs have equal fingerprints.
    pub fingerprint: u64,
}

/// The changes of a revision: key, whether it was deleted, and the encoded `KeyValue`.
type Changes = Vec<(Vec<u8>, bool, Bytes)>;

/// Collects the observations of a run and checks them.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// Changes by revision, as the first member that applied them had them.
    history: BTreeMap<i64, Changes>,
    /// Revision up to which each member was compared with the history.
    compared: BTreeMap<u64, i64>,
    /// Applied index of each member at the last look, and index of the snapshot that it had
    /// installed last.
    applied: BTreeMap<u64, (u64, u64)>,
    pub snapshots: u64,
    leaders: BTreeMap<u64, u64>,
    observed: Vec<(Duration, Duration, Observed)>,
    pub leases: Leases,
}

impl Judge {
    /// A judge of members with clocks that run faster or slower than time by at most
    /// `drift_permille`.
    pub fn new(drift_permille: u64) -> Judge {
        Judge {
            leases: Leases::new(drift_permille),
            ..Judge::default()
        }
    }

    pub fn observe(&mut self, asked: Duration, answered: Duration, what: Observed) {
        self.observed.push((asked, answered, what));
    }

    /// Records that a member leads in a term.
    pub fn leads(&mut self, term: u64, member: u64) {
        let known = *self.leaders.entry(term).or_insert(member);
        assert_eq!(known, member, "two members lead in term {term}");
    }

    /// Forgets all observations after this revision: a loss of power may have lost the writes
    /// behind it.
    pub fn forget_after(&mut self, revision: i64, drift_permille: u64) {
        drop(self.history.split_off(&(revision + 1)));
        self.observed
            .retain(|(.., what)| what.revision() <= revision);
        self.leases = Leases::new(drift_permille);
    }

    /// Records that a member restarted: it may have applied less than before.
    pub fn restarted(&mut self, member: u64) {
        self.compared.remove(&member);
        self.applied.remove(&member);
        self.leases.restarted(member);
    }

    /// Checks that the applied index of a member does not decrease. If the member has
    /// installed a snapshot since the last look, compares it with the history.
    pub fn look(&mut self, member: u64, replica: &Replica) {
        let reader = replica.reader();
        let applied = replica.applied_index();
        let snapshot = replica.installed();
        let index = snapshot.map_or(0, |it| it.index);
        let (before, known) = self
            .applied
            .insert(member, (applied, index))
            .unwrap_or((0, 0));
        assert!(
            applied >= before,
            "member {member:x} had applied entry {before}, and now {applied}"
        );
        if let Some(installed) = snapshot.filter(|_| index != known) {
            assert!(
                index > before,
                "a snapshot of entry {index} over entry {before}"
            );
            self.snapshots += 1;
            self.compare_snapshot(member, installed.revision, reader);
        }
    }

    /// Compares all keys of the history with the member's state at the snapshot's revision.
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

    /// Compares the revisions that a member has applied since the last look with the history.
    pub fn compare(&mut self, member: u64, reader: &Reader) {
        let compared = self.compared.entry(member).or_insert(1);
        // A compaction may have removed a part of its own revision.
        let from = (*compared + 1).max(reader.compacted() + 1);
        let newest = reader.revision();
        if newest <= *compared {
            return;
        }
        let history = reader.engine().history(from).expect("it is not compacted");
        for changes in history {
            let changes = changes.expect("an applied revision can be read");
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

    /// Checks all observations at the end of a run. Returns the numbers of answers, revisions
    /// and terms.
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
                        panic!("an acknowledged write is lost: {what:?}, asked at {asked:?}")
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
                    assert!(
                        same,
                        "a client observed {what:?}, but the history has {found:?}"
                    );
                }
            }
        }
    }

    /// The encoded `KeyValue` of a key at a revision; `None` where it does not exist.
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

/// Whether an encoded `KeyValue` has this value; `None`, for a deletion, always matches.
fn holds(kv: &Bytes, value: &Option<Vec<u8>>) -> bool {
    match value {
        None => true,
        Some(value) => etcd_api::EncodedKeyValue(kv.clone()).value() == &value[..],
    }
}
