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

use environment::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::HeldVersions;

use super::{KeyValueHash, hash_versions};
use crate::Error;

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
    /// Stops hashing: the machine closes.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
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
        let remembered = self.remembered.lock();
        let mut found = remembered.iter();
        found.find(|known| known.revision() == revision).cloned()
    }

    /// Hashes held versions; fails when the machine closes.
    fn hash(&self, held: &Arc<HeldVersions>) -> Result<KeyValueHash, Error> {
        let goes_on = || !self.stopping.load(Ordering::Relaxed);
        hash_versions(held.versions()?, held.at(), goes_on)
    }

    pub fn add(&self, held: HeldVersions) {
        let mut remembered = self.remembered.lock();
        remembered.push(Remembered::Due(Arc::new(held)));
        if remembered.len() > REMEMBERED_MAX {
            remembered.remove(0);
        }
    }

    /// The oldest versions that are still to be hashed.
    pub fn due(&self) -> Option<Arc<HeldVersions>> {
        let remembered = self.remembered.lock();
        remembered.iter().find_map(|known| match known {
            Remembered::Due(held) => Some(Arc::clone(held)),
            Remembered::Taken(_) => None,
        })
    }

    /// The hashes that are taken, the newest first.
    pub fn taken(&self) -> Vec<KeyValueHash> {
        let remembered = self.remembered.lock();
        let taken = remembered.iter().rev().filter_map(|known| match known {
            Remembered::Taken(hash) => Some(*hash),
            Remembered::Due(_) => None,
        });
        taken.collect()
    }

    /// Replaces held versions by their hash. Nothing is kept if the hash failed, or if newer
    /// compactions have displaced the versions.
    pub fn note(&self, revision: i64, hash: Option<KeyValueHash>) {
        let mut remembered = self.remembered.lock();
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
    pub fn take(&self) {
        while let Some(held) = self.due() {
            let (revision, hash) = (held.at(), self.hash(&held));
            if let Err(error) = &hash {
                tracing::warn!(%error, revision, "no hash is remembered of a compacted revision");
            }
            self.note(revision, hash.ok());
        }
    }
}
