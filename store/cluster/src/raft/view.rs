//! The value log as Raft's log, without a second copy of the entries.
//!
//! ```text
//!   base │ e17  e18  e19 │ e20  e21  e22
//!        │ position only │ position and bytes (the newest, up to a limit)
//!        └── read back from the log when a member is that far behind
//! ```
//!
//! Raft reads the terms of entries all the time, and their bytes when it sends or applies
//! them, nearly always soon after they were appended. So the view holds the positions of
//! all entries that are kept, and the bytes of the newest.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::{Body, Engine, Entry};
use raft::eraftpb::{ConfState, HardState, Snapshot, SnapshotMetadata};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use super::entry::to_raft;
use crate::EntryId;

/// An entry's position in the log, and its bytes while they are kept in memory.
#[derive(Debug)]
struct EntrySlot {
    entry: Entry,
    body: Option<Body>,
}
/// Raft's view of the log.
#[derive(Debug)]
pub(crate) struct View {
    engine: Engine,
    hard_state: HardState,
    pub conf_state: ConfState,
    /// The entry before the first slot.
    base: EntryId,
    slots: VecDeque<EntrySlot>,
    /// Number of slots at the front without bytes.
    forgotten: usize,
    cached_bytes: u64,
    cached_bytes_max: u64,
    /// Bytes of all slots' entries in the log.
    kept_bytes: u64,
    /// The snapshots that are exported for members, by member.
    offers: BTreeMap<u64, SnapshotMetadata>,
    /// Members for which Raft has asked for a snapshot and there was none. Raft asks through
    /// a shared reference.
    wanted: RefCell<BTreeSet<u64>>,
}

impl View {
    /// The log that recovery found. `conf_state` is as of the applied index.
    pub fn new(
        engine: Engine,
        recovered: &engine::Recovered,
        conf_state: ConfState,
        cached_bytes_max: u64,
    ) -> View {
        let hard_state = HardState {
            term: recovered.hard_state.term,
            vote: recovered.hard_state.vote,
            commit: recovered.hard_state.commit,
            ..HardState::default()
        };
        let first_unapplied = recovered.applied_index + 1;
        let mut view = View {
            engine,
            hard_state,
            conf_state,
            base: EntryId::new(recovered.base.1, recovered.base.0),
            slots: VecDeque::new(),
            forgotten: 0,
            cached_bytes: 0,
            cached_bytes_max,
            kept_bytes: 0,
            offers: BTreeMap::new(),
            wanted: RefCell::default(),
        };
        for &entry in &recovered.entries {
            let unapplied = entry.index.checked_sub(first_unapplied);
            let body = unapplied.and_then(|at| recovered.unapplied.get(at as usize));
            view.push(entry, body.map(|it| it.body.clone()));
        }
        view
    }

    pub fn push(&mut self, entry: Entry, body: Option<Body>) {
        assert_eq!(entry.index, self.last() + 1, "entries leave no gap");
        assert!(entry.term >= self.last_term(), "terms never fall");
        if body.is_none() {
            assert_eq!(
                self.forgotten,
                self.slots.len(),
                "the newest entries have their bytes"
            );
            self.forgotten += 1;
        } else {
            self.cached_bytes += entry.body_bytes;
        }
        self.kept_bytes += entry.body_bytes;
        self.slots.push_back(EntrySlot { entry, body });
        self.forget();
    }

    /// Drops the entries from `index` on.
    pub(super) fn truncate(&mut self, index: u64) -> Option<(Entry, Entry)> {
        assert!(index > self.base.index, "entry {index} was trimmed");
        let kept = (index - self.base.index - 1) as usize;
        let dropped = (self.slots.get(kept)?.entry, self.slots.back()?.entry);
        for slot in self.slots.drain(kept..) {
            self.kept_bytes -= slot.entry.body_bytes;
            if slot.body.is_some() {
                self.cached_bytes -= slot.entry.body_bytes;
            }
        }
        self.forgotten = self.forgotten.min(kept);
        Some(dropped)
    }

    /// Replaces the whole log by an installed snapshot: all entries, before it and behind it,
    /// are dropped.
    pub fn restore(&mut self, metadata: SnapshotMetadata) {
        assert!(
            metadata.index > self.base.index,
            "a snapshot of entry {} would replace a log that begins behind entry {}",
            metadata.index,
            self.base.index
        );
        self.base = EntryId::new(metadata.term, metadata.index);
        self.slots.clear();
        (self.forgotten, self.cached_bytes, self.kept_bytes) = (0, 0, 0);
        self.conf_state = metadata.get_conf_state().clone();
    }

    pub fn take_wanted(&mut self) -> Vec<u64> {
        std::mem::take(self.wanted.get_mut()).into_iter().collect()
    }

    pub fn offer(&mut self, member: u64, metadata: SnapshotMetadata) {
        assert!(
            metadata.index > 0,
            "an empty state is not sent as a snapshot"
        );
        self.offers.insert(member, metadata);
    }

    pub fn withdraw(&mut self, member: u64) {
        self.offers.remove(&member);
    }

    /// Drops the oldest entries up to `applied`, as long as more than `entries_max` entries or
    /// more than `bytes_max` bytes are kept. A member that still needs a dropped entry needs a
    /// snapshot.
    pub fn trim(&mut self, applied: u64, entries_max: usize, bytes_max: u64) {
        while (self.slots.len() > entries_max || self.kept_bytes > bytes_max)
            && self.first() <= applied
            && let Some(slot) = self.slots.pop_front()
        {
            self.base = EntryId::new(slot.entry.term, slot.entry.index);
            self.kept_bytes -= slot.entry.body_bytes;
            match slot.body {
                Some(_) => self.cached_bytes -= slot.entry.body_bytes,
                None => self.forgotten -= 1,
            }
        }
    }

    /// Keeps the bytes in memory below their limit; the newest entry's bytes always stay.
    fn forget(&mut self) {
        while self.cached_bytes > self.cached_bytes_max && self.forgotten + 1 < self.slots.len() {
            let slot = &mut self.slots[self.forgotten];
            slot.body = None;
            self.cached_bytes -= slot.entry.body_bytes;
            self.forgotten += 1;
        }
    }

    /// Index of the last entry.
    pub fn last(&self) -> u64 {
        self.base.index + self.slots.len() as u64
    }

    fn last_term(&self) -> u64 {
        self.slots
            .back()
            .map_or(self.base.term, |slot| slot.entry.term)
    }

    /// The entry's position in the log.
    pub fn entry(&self, index: u64) -> Option<&Entry> {
        self.slot(index).map(|slot| &slot.entry)
    }

    /// Index of the first entry that is kept.
    pub fn first(&self) -> u64 {
        self.base.index + 1
    }

    fn slot(&self, index: u64) -> Option<&EntrySlot> {
        self.slots
            .get(index.checked_sub(self.base.index + 1)? as usize)
    }

    fn body(&self, slot: &EntrySlot) -> raft::Result<Body> {
        match &slot.body {
            Some(body) => Ok(body.clone()),
            None => self.engine.body(&slot.entry).map_err(|error| {
                tracing::warn!(
                    %error,
                    index = slot.entry.index,
                    "an entry could not be read back from the log"
                );
                raft::Error::Store(StorageError::Compacted)
            }),
        }
    }
}

impl Storage for View {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(
            self.hard_state.clone(),
            self.conf_state.clone(),
        ))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<raft::eraftpb::Entry>> {
        if low <= self.base.index {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last() + 1, "entry {high} is beyond the last");
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let max_size = max_size.into().unwrap_or(u64::MAX);
        for index in low..high {
            let slot = self.slot(index).expect("between the first and the last");
            bytes += slot.entry.body_bytes;
            if bytes > max_size && !entries.is_empty() {
                break;
            }
            entries.push(to_raft(slot.entry.term, index, &self.body(slot)?));
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.index {
            return Ok(self.base.term);
        }
        if index < self.base.index {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let slot = self.slot(index);
        slot.map(|slot| slot.entry.term)
            .ok_or(raft::Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    /// Names the snapshot that was exported for the member. If there is none, Raft asks again
    /// after the member's next message.
    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        let offer = self.offers.get(&to);
        match offer.filter(|metadata| metadata.index >= request_index) {
            Some(metadata) => Ok(named(metadata)),
            None => {
                self.wanted.borrow_mut().insert(to);
                let later = StorageError::SnapshotTemporarilyUnavailable;
                Err(raft::Error::Store(later))
            }
        }
    }
}

/// A snapshot as the library knows it, without its contents, which are sent separately.
fn named(metadata: &SnapshotMetadata) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.set_metadata(metadata.clone());
    snapshot
}
