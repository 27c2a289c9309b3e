//! Effects that are decided and not applied yet, which evaluation reads in front of the applied
//! state.
//!
//! ```text
//!   key a   disk: …, 7        overlay: 9, 12        newest wins, older ones serve
//!   key b   disk: 5           overlay: 11 (gone)    reads at their revision
//! ```
//!
//! The next batch is evaluated while the previous one is being flushed, so
//! "now" for an evaluation is the applied state plus everything in here. The
//! values are the encoded bytes that went into the log, kept in memory:
//! nothing that is not applied is ever read back from the disk.
//!
//! Invariant: a key's versions here are newer than any applied version of it,
//! ascending. Apply removes them from the front, a failed command from the back, and the loss of
//! the lead removes all.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;
use engine::{KeyChange, Revision};

use crate::key_range::{End, KeyRange};
use crate::key_value::deletion_bytes;

/// Effects that are decided and not applied.
#[derive(Debug, Default)]
pub struct Overlay {
    /// Pending versions of each key; never an empty list.
    keys: BTreeMap<Bytes, VecDeque<KeyChange>>,
    /// Leases with unapplied grants or revocations.
    leases: HashMap<i64, PendingLease>,
    /// Log bytes of the deletion of the pending versions' keys, by lease; never 0.
    deletion_bytes: HashMap<i64, u64>,
}

#[derive(Debug)]
struct PendingLease {
    exists: bool,
    records: u32,
}

impl Overlay {
    /// Returns whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.leases.is_empty()
    }

    /// Drops all effects.
    pub fn clear(&mut self) {
        *self = Overlay::default();
    }

    /// Adds the newest version of a key.
    pub fn push(&mut self, change: KeyChange) {
        self.attach(&change);
        // Most keys have one version: nothing is allocated for more.
        let versions = self.keys.entry(change.key.clone());
        let versions = versions.or_insert_with(|| VecDeque::with_capacity(1));
        if let Some(newest) = versions.back() {
            assert!(
                newest.revision < change.revision,
                "revisions of a key only grow: {newest:?}"
            );
        }
        versions.push_back(change);
    }

    /// Removes the newest version of a key, after its command has failed.
    pub fn pop(&mut self, key: &[u8]) {
        let versions = self
            .keys
            .get_mut(key)
            .expect("only what was pushed is popped");
        let taken = versions.pop_back().expect("never an empty list");
        if versions.is_empty() {
            self.keys.remove(key);
        }
        self.detach(&taken);
    }

    /// Removes a version of a key that has been applied.
    pub fn key_applied(&mut self, key: &[u8], revision: Revision) {
        let Some(versions) = self.keys.get_mut(key) else {
            return;
        };
        let oldest = versions.front().expect("never an empty list");
        if oldest.revision != revision {
            return;
        }
        let applied = versions.pop_front().expect("just seen");
        if versions.is_empty() {
            self.keys.remove(key);
        }
        self.detach(&applied);
    }

    fn attach(&mut self, change: &KeyChange) {
        if change.lease != 0 {
            *self.deletion_bytes.entry(change.lease).or_default() += deletion_bytes(&change.key);
        }
    }

    fn detach(&mut self, change: &KeyChange) {
        if change.lease == 0 {
            return;
        }
        let bytes = self
            .deletion_bytes
            .get_mut(&change.lease)
            .expect("what is detached was attached");
        *bytes -= deletion_bytes(&change.key);
        if *bytes == 0 {
            self.deletion_bytes.remove(&change.lease);
        }
    }

    /// Log bytes of the deletion of all keys that pending versions attach to a lease.
    pub fn deletion_bytes(&self, lease: i64) -> u64 {
        self.deletion_bytes.get(&lease).copied().unwrap_or(0)
    }

    /// The newest pending version of a key at or below a revision.
    pub fn get(&self, key: &[u8], at: i64) -> Option<&KeyChange> {
        newest_at(self.keys.get(key)?, at)
    }

    /// Pending versions of the keys in a range, in key order.
    pub fn range<'a>(
        &'a self,
        range: KeyRange<'_>,
        at: i64,
    ) -> impl DoubleEndedIterator<Item = &'a KeyChange> {
        let start = Bound::Included(range.start);
        let end = match range.end {
            End::Point => Bound::Included(range.start),
            End::Before(end) => Bound::Excluded(end),
            End::Open => Bound::Unbounded,
        };
        assert!(
            !range.is_empty(),
            "empty ranges are answered without a look"
        );
        self.keys
            .range::<[u8], _>((start, end))
            .filter_map(move |(_, versions)| newest_at(versions, at))
    }

    /// The keys with a pending newest version that is attached to this lease.
    pub fn keys_of_lease(&self, lease: i64) -> impl Iterator<Item = &Bytes> {
        self.keys
            .values()
            .filter_map(|versions| versions.back())
            .filter(move |newest| !newest.tombstone && newest.lease == lease)
            .map(|newest| &newest.key)
    }

    /// Returns whether a lease exists, or `None` if no grant or revocation of it is pending.
    pub fn lease(&self, id: i64) -> Option<bool> {
        self.leases.get(&id).map(|pending| pending.exists)
    }

    /// Adds a grant or a revocation of a lease.
    pub fn set_lease(&mut self, id: i64, exists: bool) {
        assert_ne!(id, 0, "lease 0 means no lease");
        let pending = self
            .leases
            .entry(id)
            .or_insert(PendingLease { exists, records: 0 });
        pending.exists = exists;
        pending.records += 1;
    }

    /// Removes one applied record of this lease.
    pub fn lease_applied(&mut self, id: i64) {
        let Some(pending) = self.leases.get_mut(&id) else {
            return;
        };
        pending.records -= 1;
        if pending.records == 0 {
            self.leases.remove(&id);
        }
    }
}

fn newest_at(versions: &VecDeque<KeyChange>, at: i64) -> Option<&KeyChange> {
    versions
        .iter()
        .rev()
        .find(|version| version.revision.main <= at)
}
