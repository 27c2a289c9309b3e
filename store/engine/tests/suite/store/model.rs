//! The model: every version ever written, in a list.

use super::{Write, compaction_in, encode};
use bytes::Bytes;
use engine::{Batch, Change, KeyChange, Revision};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Model {
    pub revision: i64,
    pub compacted: i64,
    /// Last revision of a snapshot that was imported: versions up to it have long headers.
    pub imported: i64,
    /// What etcd's backend holds, in revision order.
    stored: BTreeMap<Revision, KeyChange>,
    /// The same by their keys.
    by_key: BTreeMap<Bytes, BTreeSet<Revision>>,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            revision: 1,
            compacted: -1,
            imported: 0,
            stored: BTreeMap::new(),
            by_key: BTreeMap::new(),
        }
    }
}

/// etcd's `keyIndex`: revisions from a creation to a tombstone.
type Generations = Vec<Vec<Revision>>;

impl Model {
    pub fn change(&self, revision: Revision, write: &Write) -> KeyChange {
        let (key, value) = match write {
            Write::Put(key, value) => (key, Some(value)),
            Write::Delete(key) => (key, None),
        };
        let before = self.visible(key, self.revision);
        let (created, version) = match (value, before) {
            (None, _) => (0, 0),
            (Some(_), None) => (revision.main, 1),
            (Some(_), Some(before)) => (before.created, before.version + 1),
        };
        let kv = encode(key, value.map_or(&[], |value| value));
        let key = Bytes::copy_from_slice(key);
        KeyChange {
            revision,
            tombstone: value.is_none(),
            key,
            kv,
            created,
            version,
            lease: 0,
        }
    }

    pub fn apply(&mut self, batch: &Batch) {
        for change in &batch.changes {
            if let Change::Key(change) = change {
                self.stored.insert(change.revision, change.clone());
                let of_key = self.by_key.entry(change.key.clone()).or_default();
                of_key.insert(change.revision);
                self.revision = change.revision.main;
            }
        }
        if let Some(revision) = compaction_in(batch) {
            self.compact(revision);
        }
    }

    fn versions_of(&self, key: &[u8]) -> impl DoubleEndedIterator<Item = &KeyChange> {
        let revisions = self.by_key.get(key).into_iter().flatten();
        revisions.map(|revision| &self.stored[revision])
    }

    pub fn visible(&self, key: &[u8], at: i64) -> Option<&KeyChange> {
        self.versions_of(key)
            .rev()
            .find(|change| change.revision.main <= at)
            .filter(|change| !change.tombstone)
    }

    /// What was written at exactly that revision.
    pub fn written(&self, revision: Revision) -> Option<&KeyChange> {
        self.stored.get(&revision)
    }

    fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.by_key.keys()
    }

    /// Keys alive now.
    pub fn keys_now(&self) -> Vec<Bytes> {
        let alive = |key: &&Bytes| self.visible(key, self.revision).is_some();
        self.keys().filter(alive).cloned().collect()
    }

    pub fn range(&self, start: &[u8], end: Option<&[u8]>, at: i64) -> Vec<Bytes> {
        let within = |key: &&Bytes| &key[..] >= start && end.is_none_or(|end| &key[..] < end);
        let keys = self.keys().filter(within);
        keys.filter_map(|key| self.visible(key, at).map(|change| change.kv.clone()))
            .collect()
    }

    /// As long as nothing at `from` or later was compacted away.
    pub fn history(&self, from: i64) -> Vec<(i64, Vec<Bytes>)> {
        let mut found: Vec<(i64, Vec<Bytes>)> = Vec::new();
        for change in self
            .stored
            .values()
            .filter(|change| change.revision.main >= from)
        {
            match found.last_mut() {
                Some((main, kvs)) if *main == change.revision.main => kvs.push(change.kv.clone()),
                _ => found.push((change.revision.main, vec![change.kv.clone()])),
            }
        }
        found
    }

    pub fn kept(&self) -> Vec<KeyChange> {
        self.stored.values().cloned().collect()
    }

    /// `keyIndex.generations`: the last one is empty after a tombstone.
    fn generations(&self, key: &[u8]) -> Generations {
        let mut generations = vec![Vec::new()];
        for change in self.versions_of(key) {
            generations.last_mut().unwrap().push(change.revision);
            if change.tombstone {
                generations.push(Vec::new());
            }
        }
        generations
    }

    /// `keyIndex.doCompact`.
    fn do_compact(generations: &Generations, at: i64) -> (usize, Option<usize>) {
        let mut number = 0;
        while number < generations.len() - 1 {
            if generations[number].last().unwrap().main >= at {
                break;
            }
            number += 1;
        }
        (
            number,
            generations[number]
                .iter()
                .rposition(|revision| revision.main <= at),
        )
    }

    /// What `keyIndex.compact` makes available, beside all above `at`.
    pub fn compact(&mut self, at: i64) {
        if at <= self.compacted {
            return;
        }
        self.compacted = at;
        let mut available = BTreeSet::new();
        for key in self.keys() {
            let generations = self.generations(key);
            let (number, found) = Model::do_compact(&generations, at);
            available.extend(found.map(|found| generations[number][found]));
        }
        let is_kept = |revision: &Revision| revision.main > at || available.contains(revision);
        self.stored.retain(|revision, _| is_kept(revision));
        self.by_key.retain(|_, revisions| {
            revisions.retain(is_kept);
            !revisions.is_empty()
        });
    }

    /// `keyIndex.keep` for all keys.
    fn keep(&self, at: i64) -> BTreeSet<Revision> {
        let mut available = BTreeSet::new();
        for key in self.keys() {
            let generations = self.generations(key);
            let (number, found) = Model::do_compact(&generations, at);
            let tombstone = |found: usize| {
                found == generations[number].len() - 1 && number != generations.len() - 1
            };
            available.extend(
                found
                    .filter(|&found| !tombstone(found))
                    .map(|found| generations[number][found]),
            );
        }
        available
    }

    /// `kvHasher.WriteKeyValue` over the backend.
    pub fn hashed(&self, at: i64) -> Vec<(Revision, Bytes)> {
        let keep = self.keep(at);
        let counts = |change: &&KeyChange| {
            let revision = change.revision;
            let scheduled =
                revision.main <= self.compacted && !keep.is_empty() && !keep.contains(&revision);
            let last_tombstone = revision.main == self.compacted && change.tombstone;
            revision.main <= at && !scheduled && !last_tombstone
        };
        self.stored
            .values()
            .filter(counts)
            .map(|change| (change.revision, change.kv.clone()))
            .collect()
    }
}
