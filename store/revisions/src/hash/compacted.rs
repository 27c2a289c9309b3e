//! Hashes of revisions before their physical compaction.
//!
//! ```text
//!   apply      hold versions ─► compact ─► ... sweeps wait
//!   upkeep                                    start a thread, if none runs
//!   thread                                    hash, keep the hash, release the versions
//!   reader     HashKV(C)                      the kept hash, or hashes the held versions
//! ```
//!
//! After a compaction to C the hash of C is another one, which etcd returns after a restart.
//! Until then etcd returns the hash that it took before the compaction. This crate does the same
//! for the last ten physical compactions, for which a client waits. Such a compaction has to read
//! all values; a compaction that is not physical costs only as much as it removes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Batch, Change, HeldVersions, Task};

use super::{KeyValueHash, hash_versions};
use crate::Error;
use crate::machine::Machine;
use crate::state::StateRecord;

/// Number of hashes that are kept, as in etcd.
const REMEMBERED_MAX: usize = 10;

/// The hashes that are kept, and the versions that are still to be hashed.
#[derive(Debug, Default)]
pub(crate) struct CompactedHashes {
    /// Ascending by revision.
    remembered: Mutex<Vec<Remembered>>,
    /// Set when the machine closes, which stops hashing.
    stopping: AtomicBool,
}

#[derive(Clone, Debug)]
enum Remembered {
    Due(Arc<HeldVersions>),
    Taken(KeyValueHash),
}

impl Remembered {
    fn revision(&self) -> i64 {
        match self {
            Remembered::Due(held) => held.at(),
            Remembered::Taken(hash) => hash.hash_revision,
        }
    }
}

impl CompactedHashes {
    fn lock(&self) -> MutexGuard<'_, Vec<Remembered>> {
        let locked = self.remembered.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hash of a compacted revision, if it is kept or can still be taken. `newest` is
    /// for the header.
    pub fn of(&self, revision: i64, newest: i64) -> Result<Option<KeyValueHash>, Error> {
        let hash = match self.find(revision) {
            None => return Ok(None),
            Some(Remembered::Taken(hash)) => hash,
            Some(Remembered::Due(held)) => self.hash(&held)?,
        };
        Ok(Some(KeyValueHash {
            revision: newest,
            ..hash
        }))
    }

    fn find(&self, revision: i64) -> Option<Remembered> {
        let remembered = self.lock();
        let mut found = remembered.iter();
        found.find(|known| known.revision() == revision).cloned()
    }

    /// Hashes held versions; fails when the machine closes.
    fn hash(&self, held: &Arc<HeldVersions>) -> Result<KeyValueHash, Error> {
        let goes_on = || !self.stopping.load(Ordering::Relaxed);
        hash_versions(held.versions()?, held.at(), goes_on)
    }

    fn add(&self, held: HeldVersions) {
        let mut remembered = self.lock();
        remembered.push(Remembered::Due(Arc::new(held)));
        if remembered.len() > REMEMBERED_MAX {
            remembered.remove(0);
        }
    }

    /// The oldest versions that are still to be hashed.
    fn due(&self) -> Option<Arc<HeldVersions>> {
        let remembered = self.lock();
        remembered.iter().find_map(|known| match known {
            Remembered::Due(held) => Some(Arc::clone(held)),
            Remembered::Taken(_) => None,
        })
    }

    /// Replaces held versions by their hash. Nothing is kept if the hash failed, or if newer
    /// compactions have displaced the versions.
    fn note(&self, revision: i64, hash: Option<KeyValueHash>) {
        let mut remembered = self.lock();
        let place = remembered
            .iter()
            .position(|known| known.revision() == revision);
        match (place, hash) {
            (Some(place), Some(hash)) => remembered[place] = Remembered::Taken(hash),
            (Some(place), None) => drop(remembered.remove(place)),
            (None, _) => {}
        }
    }

    /// Hashes all held versions.
    fn take(&self) {
        while let Some(held) = self.due() {
            let (revision, hash) = (held.at(), self.hash(&held));
            if let Err(error) = &hash {
                tracing::warn!(%error, revision, "no hash is remembered of a compacted revision");
            }
            self.note(revision, hash.ok());
        }
    }
}

impl Machine {
    /// Holds the versions that the physical compactions of a batch would remove, so that they can
    /// be hashed. A batch that was in the log at the start may have been applied and swept before
    /// the restart, so for such a batch nothing is held and no hash is kept.
    pub(crate) fn hold_for_hashes(&self, batch: &Batch, mut compacted: i64) {
        if batch.index <= self.last_at_start {
            return;
        }
        for change in &batch.changes {
            if let Change::State { kind, payload } = change
                && let Ok(StateRecord::Compacted { revision, physical }) =
                    StateRecord::decode(*kind, payload)
            {
                // etcd accepts a compaction to 0, which has nothing to hash.
                if physical && revision > 0 {
                    let held = self.applier.hold_versions(revision, compacted);
                    self.shared.compacted_hashes.add(held);
                }
                compacted = revision;
            }
        }
    }

    /// Starts the thread that hashes held versions, if there are any and none runs.
    pub(crate) fn take_hashes(&mut self) -> Result<(), Error> {
        if self
            .hashing
            .as_ref()
            .is_some_and(|task| !task.is_finished())
        {
            return Ok(());
        }
        let ended = self.hashing.take();
        if ended.is_some_and(Task::has_panicked)
            && let Some(held) = self.shared.compacted_hashes.due()
        {
            tracing::warn!(revision = held.at(), "hashing it ended in a panic");
            self.shared.compacted_hashes.note(held.at(), None);
        }
        if self.shared.compacted_hashes.due().is_some() {
            let shared = Arc::clone(&self.shared);
            let worker = shared.options.engine.log.worker;
            let body = move || {
                shared.compacted_hashes.take();
                Ok(())
            };
            self.hashing = Some(Task::start(worker, "hash-compacted", body)?);
        }
        Ok(())
    }

    /// Stops the hashing thread, if there is one, and waits for its end.
    pub(crate) fn end_hashing(&mut self) {
        let hashes = &self.shared.compacted_hashes;
        hashes.stopping.store(true, Ordering::Relaxed);
        if let Some(task) = self.hashing.take()
            && task.has_panicked()
        {
            tracing::warn!("hashing a compacted revision ended in a panic");
        }
    }
}
