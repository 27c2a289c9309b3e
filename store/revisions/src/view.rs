//! Reads of keys: from a snapshot of the applied state, and for evaluation from the overlay of
//! pending effects in front of it.
//!
//! ```text
//!                 at <= applied revision        at > applied revision
//!   get(key, at)  snapshot                      overlay if it knows the key, else snapshot
//!   scan          snapshot                      both merged in key order, overlay wins
//!   count         index count, O(log n)         index count, corrected by the overlay's keys
//! ```
//!
//! Request tasks use the same code with an empty overlay, so that a range in
//! a transaction and a plain range cannot differ.

use std::cmp::Ordering;

use bytes::Bytes;
use engine::{Engine, KeyChange, Lineage, Snapshot, Version};
use etcd_api::{EncodedKeyValue, Error as Refusal, Fields};

use crate::Error;
use crate::key_range::{End, KeyRange};
use crate::overlay::Overlay;
use crate::read_budget::ReadBudget;

/// A consistent view of all keys.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Reads stored values.
    pub engine: &'a Engine,
    /// Applied state.
    pub snapshot: &'a Snapshot,
    /// Pending effects; empty for request tasks.
    pub overlay: &'a Overlay,
    /// The revision that is "now".
    pub revision: i64,
    /// Reads below it are refused; -1 before the first compaction.
    pub compacted: i64,
    /// Limit of the bytes that may be read through this view; request tasks have none.
    pub budget: Option<&'a ReadBudget>,
}

/// A live version of a key, before its value is read.
#[derive(Clone, Debug)]
pub enum Found {
    /// In the log.
    Stored(Version),
    /// In the overlay.
    Pending(KeyChange),
}

impl Found {
    pub fn key(&self) -> &Bytes {
        match self {
            Found::Stored(version) => &version.key,
            Found::Pending(change) => &change.key,
        }
    }

    /// Bytes of its record in the log.
    pub fn log_bytes(&self) -> u64 {
        match self {
            Found::Stored(version) => version.log_bytes(),
            Found::Pending(change) => change.log_bytes(),
        }
    }

    fn stored(&self) -> Option<&Version> {
        match self {
            Found::Stored(version) => Some(version),
            Found::Pending(_) => None,
        }
    }

    /// Main revision of the version, known without reading its bytes.
    pub fn modified(&self) -> i64 {
        match self {
            Found::Stored(version) => version.main,
            Found::Pending(change) => change.revision.main,
        }
    }
}

/// A live version of a key in memory.
#[derive(Clone, Debug)]
pub struct KeyVersion {
    /// The numbers that the next version of the key is computed from.
    pub lineage: Lineage,
    /// Main revision of this version.
    pub modified: i64,
    /// The whole `KeyValue`, encoded.
    pub encoded: EncodedKeyValue,
}

impl KeyVersion {
    pub fn key(&self) -> &[u8] {
        self.encoded.key()
    }

    pub fn value(&self) -> &[u8] {
        self.encoded.value()
    }
}

impl From<KeyChange> for KeyVersion {
    fn from(stored: KeyChange) -> KeyVersion {
        assert!(
            !stored.tombstone,
            "the index gave a tombstone as live: {stored:?}"
        );
        KeyVersion {
            lineage: stored.lineage(),
            modified: stored.revision.main,
            encoded: EncodedKeyValue(stored.kv),
        }
    }
}

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Ascending,
    /// Largest key first.
    Descending,
}

impl<'a> View<'a> {
    /// Returns the revision that a request reads: 0 and below mean the newest. Fails for a future
    /// or a compacted revision.
    pub fn resolve(&self, revision: i64) -> Result<i64, Refusal> {
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        let at = if revision <= 0 {
            self.revision
        } else {
            revision
        };
        if at < self.compacted {
            Err(Refusal::Compacted)
        } else {
            Ok(at)
        }
    }

    /// Limits a revision to the newest one of the snapshot.
    fn applied(&self, at: i64) -> i64 {
        at.min(self.snapshot.revision())
    }

    /// The live version of a key at a revision.
    pub fn get(&self, key: &[u8], at: i64) -> Option<Found> {
        if let Some(pending) = self.overlay.get(key, at) {
            return (!pending.tombstone).then(|| Found::Pending(pending.clone()));
        }
        self.snapshot.get(key, self.applied(at)).map(Found::Stored)
    }

    /// Live versions in a range, at most `limit` of them.
    pub fn scan(
        &self,
        range: KeyRange<'_>,
        at: i64,
        direction: Direction,
        limit: usize,
    ) -> Vec<Found> {
        let end = match range.end {
            _ if range.is_empty() => return Vec::new(),
            End::Point => return self.get(range.start, at).into_iter().take(limit).collect(),
            End::Before(end) => Some(end),
            End::Open => None,
        };
        let mut stored = self.snapshot.range(range.start, end, self.applied(at));
        match direction {
            Direction::Ascending => {
                let stored = std::iter::from_fn(|| stored.next().map(Found::Stored));
                merge(stored, self.overlay.range(range, at), direction, limit)
            }
            Direction::Descending => {
                let stored = std::iter::from_fn(|| stored.next_back().map(Found::Stored));
                merge(
                    stored,
                    self.overlay.range(range, at).rev(),
                    direction,
                    limit,
                )
            }
        }
    }

    /// As [`View::scan`], but charges the keys to the view's budget.
    pub fn scan_for_reading(
        &self,
        range: KeyRange<'_>,
        at: i64,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Found>, Error> {
        let Some(budget) = self.budget else {
            return Ok(self.scan(range, at, direction, limit));
        };
        // One key more than the budget shows that there are more.
        let found = self.scan(range, at, direction, limit.min(budget.keys_left() + 1));
        budget.take_keys(found.len())?;
        Ok(found)
    }

    fn take_budget(&self, found: &[Found]) -> Result<(), Error> {
        match self.budget {
            Some(budget) => budget.take_bytes(found.iter().map(Found::log_bytes).sum()),
            None => Ok(()),
        }
    }

    /// Number of live keys in a range at a revision.
    pub fn count(&self, range: KeyRange<'_>, at: i64) -> i64 {
        let end = match range.end {
            _ if range.is_empty() => return 0,
            End::Point => return i64::from(self.get(range.start, at).is_some()),
            End::Before(end) => Some(end),
            End::Open => None,
        };
        let applied = self.applied(at);
        let stored = self.engine.count(self.snapshot, range.start, end, applied);
        assert!(
            applied <= self.revision,
            "a snapshot from the future of {}",
            self.revision
        );
        let mut count = i64::try_from(stored).expect("a count of keys in memory");
        for pending in self.overlay.range(range, at) {
            let lived = self.snapshot.get(&pending.key, applied).is_some();
            count += i64::from(!pending.tombstone) - i64::from(lived);
        }
        assert!(count >= 0, "more keys died than lived");
        count
    }

    /// Reads a version.
    pub fn read(&self, found: &Found) -> Result<KeyVersion, Error> {
        self.take_budget(std::slice::from_ref(found))?;
        self.read_within_budget(found)
    }

    fn read_within_budget(&self, found: &Found) -> Result<KeyVersion, Error> {
        match found {
            Found::Stored(version) => Ok(self.engine.read(version)?.into()),
            Found::Pending(change) => Ok(change.clone().into()),
        }
    }

    /// As [`View::read`] for all versions, with fewer reads from the disk.
    pub fn read_all(&self, found: &[Found]) -> Result<Vec<KeyVersion>, Error> {
        self.take_budget(found)?;
        let stored: Vec<&Version> = found.iter().filter_map(Found::stored).collect();
        let mut stored = self.engine.read_all(&stored)?.into_iter();
        let versions = found.iter().map(|found| match found {
            Found::Stored(_) => Ok(stored.next().expect("one for each version").into()),
            Found::Pending(_) => self.read_within_budget(found),
        });
        versions.collect()
    }

    /// Reads the versions without their values, which works even if a value is damaged.
    pub fn read_heads(&self, found: &[Found]) -> Result<Vec<KeyVersion>, Error> {
        found.iter().map(|found| self.read_head(found)).collect()
    }

    /// Reads one version without its value.
    pub fn read_head(&self, found: &Found) -> Result<KeyVersion, Error> {
        let lineage = match found {
            Found::Stored(version) => self.engine.lineage_of(version)?,
            Found::Pending(change) => change.lineage(),
        };
        let fields = Fields {
            key: found.key(),
            create_revision: lineage.created,
            mod_revision: found.modified(),
            version: lineage.version,
            value: &[],
            lease: lineage.lease,
        };
        Ok(KeyVersion {
            lineage,
            modified: found.modified(),
            encoded: fields.encode(),
        })
    }

    /// Returns the fields that the next version of a key is computed from, without its value.
    pub fn lineage(&self, key: &[u8], at: i64) -> Result<Option<Lineage>, Error> {
        match self.overlay.get(key, at) {
            Some(pending) => Ok((!pending.tombstone).then_some(pending.lineage())),
            None => Ok(self.engine.lineage(self.snapshot, key, self.applied(at))?),
        }
    }

    /// Finds and reads the live version of a key at a revision.
    pub fn fetch(&self, key: &[u8], at: i64) -> Result<Option<KeyVersion>, Error> {
        self.get(key, at).map(|found| self.read(&found)).transpose()
    }

    /// Finds and reads all live versions in a range at a revision.
    pub fn fetch_all(&self, range: KeyRange<'_>, at: i64) -> Result<Vec<KeyVersion>, Error> {
        let found = self.scan_for_reading(range, at, Direction::Ascending, usize::MAX)?;
        self.read_all(&found)
    }
}

/// Merges two runs in key order; on equal keys the pending one hides the
/// stored one, and a pending tombstone hides it and itself.
fn merge<'o>(
    stored: impl Iterator<Item = Found>,
    pending: impl Iterator<Item = &'o KeyChange>,
    direction: Direction,
    limit: usize,
) -> Vec<Found> {
    let (mut stored, mut pending) = (stored.peekable(), pending.peekable());
    let mut merged = Vec::new();
    while merged.len() < limit {
        let order = match (stored.peek(), pending.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(stored), Some(pending)) => match direction {
                Direction::Ascending => stored.key().cmp(&pending.key),
                Direction::Descending => pending.key.cmp(stored.key()),
            },
        };
        let found = stored.next_if(|_| order.is_le());
        match order {
            Ordering::Less => merged.extend(found),
            // A version that is pending hides the stored one, and may be a deletion.
            _ => merged.extend(
                pending
                    .next()
                    .filter(|it| !it.tombstone)
                    .cloned()
                    .map(Found::Pending),
            ),
        }
    }
    merged
}
