//! Batches of changes, which the engine takes. A log entry has one; where nothing is flushed, it may
//! have several ([`crate::Applier::append_joining`]), which come back as one.

use bytes::Bytes;

/// The number of a change: transactions count in `main`, changes within one in `sub`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// Number of the transaction that made the change; never reused, no gaps.
    pub main: i64,
    /// Number of the change within the transaction, from 0.
    pub sub: i64,
}

/// How the key versions of a batch lie in the log (docs/formats/engine.md). Every reader takes
/// both forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// 48 bytes for each version, as members of a cluster have them.
    Long,
    /// 7 bytes where a version allows it: the first of its key, or a deletion, without a lease.
    Short,
}

/// A new version of a key, or its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    pub revision: Revision,
    /// True for a deletion.
    pub tombstone: bool,
    /// The key; also found, byte for byte, inside `kv`.
    pub key: Bytes,
    /// The encoded `mvccpb.KeyValue`, stored and handed back unchanged. A
    /// tombstone's carries the key alone.
    pub kv: Bytes,
    /// Main revision of the key's creation; 0 for a tombstone.
    pub created: i64,
    /// Versions since creation, from 1; 0 for a tombstone.
    pub version: i64,
    /// Lease that the key is attached to; 0 for none.
    pub lease: i64,
}

/// The numbers of a version from which the key's next version continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// Main revision of the key's creation.
    pub created: i64,
    /// Versions since creation, from 1.
    pub version: i64,
    /// Lease that the key is attached to; 0 for none.
    pub lease: i64,
}

impl KeyChange {
    /// The numbers from which the key's next version continues.
    pub fn lineage(&self) -> Lineage {
        Lineage {
            created: self.created,
            version: self.version,
            lease: self.lease,
        }
    }
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key version.
    Key(KeyChange),
    /// A state record of the crate above (leases, compaction, alarms ...):
    /// opaque here, handed back at recovery.
    State {
        /// The caller's own kind.
        kind: u8,
        /// The caller's own bytes.
        payload: Bytes,
    },
}

impl Change {
    /// Whether it deletes a key.
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(self, Change::Key(key) if key.tombstone)
    }
}

/// The effects of one log entry, applied together or not at all.
///
/// Main revisions within a batch ascend without a gap and continue where the
/// batch before stopped; subs ascend within a main revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Term of the log entry.
    pub term: u64,
    /// Index of the log entry; ascending.
    pub index: u64,
    /// The effects, in order.
    pub changes: Vec<Change>,
}

impl Batch {
    /// The key versions in it.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &KeyChange> {
        self.changes.iter().filter_map(|change| match change {
            Change::Key(key) => Some(key),
            Change::State { .. } => None,
        })
    }

    /// Its first and last main revision; `None` when it changes no key.
    pub fn mains(&self) -> Option<(i64, i64)> {
        let first = self.keys().next()?.revision.main;
        let last = self.keys().next_back()?.revision.main;
        Some((first, last))
    }
}

/// What recovery hands to its caller, in order: at most one checkpoint,
/// then the batches after it.
///
/// A store without history ([`crate::Options::keeps_history`]) reads the batches before the entries of
/// the checkpoint. If these are damaged, everything is handed over again, from an older checkpoint
/// or from none, and the caller forgets what it got before. If such a store keeps no state hash either, batches that
/// change keys alone are not handed over once a batch with keys was.
#[derive(Debug)]
pub enum Replayed<'a> {
    /// The state blob that was given to the checkpoint.
    Checkpoint(&'a [u8]),
    /// A batch. The checkpoint's trees may already contain a few of them (its blob never
    /// does); the engine handles that.
    Batch(&'a Batch),
}
