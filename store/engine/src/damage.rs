//! Versions with records that were found damaged while the engine runs, and how they are
//! mended.
//!
//! ```text
//!   read ─► checksum fails ─┬─ proved by what is left (salvage.rs) ─► served, written again by maintain()
//!                           └─ not ─► Error::DamagedValue, noted ─► the caller asks other members
//!                                                                  ─► mend_version() writes it again
//! ```
//!
//! A record is written again where it was, byte for byte, so that the frame around it
//! verifies again, too. No segment is released while a record is written.

use crate::key_walk::ChangedEntry;
use bytes::Bytes;
use environment::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most versions that are noted. Further ones are found again when they are read again.
const NOTED_MAX: usize = 1024;

/// A version with a damaged record that has no second copy on this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedVersion {
    /// The key.
    pub key: Bytes,
    /// Main revision that wrote it.
    pub main: i64,
}

/// Damage found since the engine was opened.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Noted versions; true: what is left of the record proves what was written.
    noted: Mutex<BTreeMap<DamagedVersion, bool>>,
    /// Whether any noted version is proved; otherwise [`Applier::maintain`] need not look.
    any_proved: AtomicBool,
    /// Whether any noted version is not proved.
    any_unproved: AtomicBool,
    /// The index has changed by itself, and nothing proves what it was.
    spoiled_index: AtomicBool,
    /// Entries of the index that the applying thread is to correct.
    pub(crate) changed_entries: ChangedEntries,
    /// Segments that reclaim leaves alone until their records are mended.
    pub(crate) spoiled: Mutex<BTreeSet<u32>>,
    /// Held while a record is written again and while segments are released.
    pub(crate) mending: Mutex<()>,
}

/// Entries that [`crate::Engine::check_keys`] leaves for [`crate::Applier::maintain`].
#[derive(Debug, Default)]
pub(crate) struct ChangedEntries {
    entries: Mutex<Vec<ChangedEntry>>,
    any: AtomicBool,
}

impl ChangedEntries {
    pub(crate) fn note(&self, changed: Vec<ChangedEntry>) {
        *self.entries.lock() = changed;
        self.any.store(true, Ordering::Release);
    }

    /// Costs one load where there is none.
    pub(crate) fn take(&self) -> Vec<ChangedEntry> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.entries.lock())
    }
}

impl Damage {
    pub(crate) fn note_spoiled_index(&self) {
        self.spoiled_index.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_spoiled_index(&self) -> bool {
        self.spoiled_index.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, key: &[u8], main: i64, proved: bool) {
        let mut noted = self.noted.lock();
        if noted.len() < NOTED_MAX {
            let key = Bytes::copy_from_slice(key);
            noted.insert(DamagedVersion { key, main }, proved);
            let any = if proved {
                &self.any_proved
            } else {
                &self.any_unproved
            };
            any.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn forget(&self, version: &DamagedVersion) {
        let mut noted = self.noted.lock();
        noted.remove(version);
        let any = |wanted: bool| noted.values().any(|&proved| proved == wanted);
        self.any_proved.store(any(true), Ordering::Relaxed);
        self.any_unproved.store(any(false), Ordering::Relaxed);
    }

    /// The noted versions of one kind; costs one load where there is none.
    pub(crate) fn all(&self, proved: bool) -> Vec<DamagedVersion> {
        let any = if proved {
            &self.any_proved
        } else {
            &self.any_unproved
        };
        if !any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let noted = self.noted.lock();
        let wanted = noted.iter().filter(|&(_, &is_proved)| is_proved == proved);
        wanted.map(|(version, _)| version.clone()).collect()
    }
}
