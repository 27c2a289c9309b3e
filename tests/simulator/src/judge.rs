//! The judge: invariants of every run.
//!
//! - The histories of all members are prefixes of one history;
//! - what clients asked and saw agrees with that history and with real time ([`check`]);
//! - members that have applied the same entries have the same hash of their state, and no alarm
//!   says otherwise;
//! - at most one member leads in a term;
//! - while a member reads under its lease, no member leads in a later term;
//! - the applied index of a member never decreases while it runs, and a snapshot that it has
//!   installed equals the history at its revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use cluster::Replica;
use engine::StateHash;
use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::{AlarmType, RangeRequest};
use history::{
    Answer, Change, Entry, History, Operation, Outcome, Request, Rule, Version, Violation, check,
};
use revisions::Reader;

use crate::leases::Leases;

/// States that are remembered; members are rarely that far apart.
const STATES_MAX: usize = 5000;

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

/// Collects the observations of a run and checks them.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// Every revision, as the first member that applied it had it.
    history: BTreeMap<i64, Entry>,
    /// Revision up to which each member was compared with the history.
    compared: BTreeMap<u64, i64>,
    /// Applied index of each member at the last look, and index of the snapshot that it had
    /// installed last.
    applied: BTreeMap<u64, (u64, u64)>,
    pub snapshots: u64,
    leaders: BTreeMap<u64, u64>,
    /// The hash of the state after an entry, by the entry and the beginning of the sum, as the
    /// first member that applied it had it.
    states: BTreeMap<(u64, u64), StateHash>,
    /// Hashes that were compared.
    pub states_compared: u64,
    /// Requests of clients, answered or abandoned.
    operations: Vec<Operation>,
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

    /// Records what a client asked and when, and the answer. Without an answer the outcome is
    /// unknown. The judge of leases knows the lives of members, so this one need not.
    pub fn observe(
        &mut self,
        client: usize,
        (asked, answered): (Duration, Duration),
        request: Request,
        answer: Option<Answer>,
    ) {
        self.operations.push(Operation {
            client: client as u32,
            member: 0,
            life: None,
            called: asked.as_nanos() as u64,
            returned: answered.as_nanos() as u64,
            request,
            outcome: answer.map_or(Outcome::unknown("no answer"), Outcome::Done),
        });
    }

    /// Records that a member leads in a term.
    pub fn leads(&mut self, term: u64, member: u64) {
        let known = *self.leaders.entry(term).or_insert(member);
        assert_eq!(known, member, "two members lead in term {term}");
    }

    /// Forgets all answers after this revision: a loss of power may have lost the writes
    /// behind it, and may have kept them.
    pub fn forget_after(&mut self, revision: i64, drift_permille: u64) {
        drop(self.history.split_off(&(revision + 1)));
        // Other entries may take the place of lost ones.
        self.states.clear();
        for operation in &mut self.operations {
            if operation.answer().is_some_and(|it| it.revision > revision) {
                operation.outcome = Outcome::unknown("a loss of power may have undone it");
            }
        }
        self.leases = Leases::new(drift_permille);
    }

    /// Records that a member restarted: it may have applied less than before.
    pub fn restarted(&mut self, member: u64) {
        self.compared.remove(&member);
        self.applied.remove(&member);
        self.leases.restarted(member);
    }

    /// Checks a member that runs.
    pub fn look(&mut self, now: Duration, member: u64, replica: &Replica) {
        if replica.leads() {
            self.leads(replica.term(), member);
        }
        self.check_applied(member, replica);
        self.compare_state(member, replica.reader());
        self.compare(member, replica.reader());
        self.leases.look(now, member, replica.reader());
    }

    /// Compares the hash of a member's state with that of other members after the same entry.
    fn compare_state(&mut self, member: u64, reader: &Reader) {
        let alarms = reader.alarms();
        let corrupt = alarms
            .iter()
            .find(|it| it.alarm == AlarmType::Corrupt as i32);
        assert!(
            corrupt.is_none(),
            "a false alarm at member {member:x}: {corrupt:?}"
        );
        let Some(found) = reader.engine().state_hash() else {
            return;
        };
        let known = self.states.entry((found.index, found.since));
        let known = *known.or_insert(found);
        assert!(
            known == found,
            "member {member:x} has another state: {found:?}, not {known:?}"
        );
        self.states_compared += 1;
        while self.states.len() > STATES_MAX {
            self.states.pop_first();
        }
    }

    /// Checks that the applied index of a member does not decrease. If the member has
    /// installed a snapshot since the last look, compares it with the history.
    fn check_applied(&mut self, member: u64, replica: &Replica) {
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
        let changes = self.history.values().flat_map(|entry| &entry.changes);
        for key in changes.map(Change::key).collect::<BTreeSet<_>>() {
            let request = RangeRequest {
                key: Bytes::copy_from_slice(key.as_bytes()),
                revision,
                ..RangeRequest::default()
            };
            let found = reader.range(&request).expect("it is not compacted");
            let found = found.kvs.first().map(version);
            let known = self.at(key, revision);
            assert!(
                found == known,
                "member {member:x} has installed {found:?} at revision {revision}, not {known:?}"
            );
        }
    }

    /// Compares the revisions that a member has applied since the last look with the history.
    fn compare(&mut self, member: u64, reader: &Reader) {
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
            let versions = changes.versions.iter().map(|it| match it.tombstone {
                true => Change::Delete {
                    key: text(&it.key),
                    modified: changes.main,
                },
                false => Change::Put(version(&EncodedKeyValue(it.kv.clone()))),
            });
            let found = Entry {
                revision: changes.main,
                changes: versions.collect(),
            };
            let known = self.history.entry(changes.main);
            let known = known.or_insert_with(|| found.clone());
            assert!(
                *known == found,
                "member {member:x} has another history: {found:?}, not {known:?}"
            );
        }
        *compared = newest;
    }

    /// Checks all operations at the end of a run. Returns the numbers of answers, revisions
    /// and terms.
    pub fn conclude(&self) -> (u64, i64, u64) {
        let history = History {
            operations: self.operations.clone(),
            ledger: self.history.values().cloned().collect(),
            ..History::default()
        };
        // The network doubles messages, and a command that arrives twice is executed twice;
        // connections between real members double nothing. Leases have a judge of their own.
        let is_judged = |it: &Violation| !matches!(it.rule, Rule::Origin | Rule::Lease);
        let violations = check(&history).into_iter().filter(is_judged);
        let violations: Vec<String> = violations.map(|it| it.to_string()).collect();
        assert!(violations.is_empty(), "{}", violations.join("\n"));
        let answers = self.operations.iter().filter(|it| it.answer().is_some());
        let last = self.history.keys().next_back().copied().unwrap_or(1);
        (answers.count() as u64, last, self.leaders.len() as u64)
    }

    /// The version of a key at a revision; `None` where it does not exist.
    fn at(&self, key: &str, revision: i64) -> Option<Version> {
        let before = self.history.range(..=revision).rev();
        let mut all = before.flat_map(|(_, entry)| entry.changes.iter().rev());
        match all.find(|change| change.key() == key)? {
            Change::Put(version) => Some(version.clone()),
            Change::Delete { .. } => None,
        }
    }
}

/// A stored version as a history has it.
pub(crate) fn version(kv: &EncodedKeyValue) -> Version {
    let fields = kv.fields();
    Version {
        key: text(fields.key),
        value: text(fields.value),
        created: fields.create_revision,
        modified: fields.mod_revision,
        version: fields.version,
        lease: fields.lease,
    }
}

/// Keys and values of clients are text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
