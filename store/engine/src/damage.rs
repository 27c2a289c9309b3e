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
//! verifies again, too. No segment is given back while a record is written.

use crate::engine::{Engine, Shared};
use crate::format::{KEY_HEADER_BYTES, KIND_KEY, KeyHeader};
use crate::place::{Place, padding};
use crate::record::Lineage;
use crate::trees::Known;
use crate::{Applier, Error, Stored, Version, salvage, trees};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use value_log::Record;

/// Most versions that are noted. Further ones are found again when they are read again.
const NOTED_MAX: usize = 1024;
/// Bytes of a key that a message shows.
const SHOWN_BYTES: usize = 200;
/// The system's number for a device that cannot read a sector.
const EIO: i32 = 5;

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
    /// Segments that reclaim leaves alone until their records are mended.
    spoiled: Mutex<BTreeSet<u32>>,
    /// Held while a record is written again and while segments are given back.
    mending: Mutex<()>,
}

impl Damage {
    fn noted(&self) -> MutexGuard<'_, BTreeMap<DamagedVersion, bool>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While the guard lives, no other thread writes a record again or gives segments back.
    pub(crate) fn stay(&self) -> MutexGuard<'_, ()> {
        self.mending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Segments with records that reclaim could not read.
    pub(crate) fn spoiled(&self) -> BTreeSet<u32> {
        self.spoiled_now().clone()
    }

    fn spoiled_now(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.spoiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, key: &[u8], main: i64, proved: bool) {
        let mut noted = self.noted();
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

    fn forget(&self, version: &DamagedVersion) {
        let mut noted = self.noted();
        noted.remove(version);
        let any = |wanted: bool| noted.values().any(|&proved| proved == wanted);
        self.any_proved.store(any(true), Ordering::Relaxed);
        self.any_unproved.store(any(false), Ordering::Relaxed);
    }

    fn all(&self, proved: bool) -> Vec<DamagedVersion> {
        let noted = self.noted();
        let wanted = noted.iter().filter(|&(_, &is_proved)| is_proved == proved);
        wanted.map(|(version, _)| version.clone()).collect()
    }
}

impl Engine {
    /// Versions with damaged records that were read since the engine was opened, and that only
    /// another member can supply.
    pub fn damaged_versions(&self) -> Vec<DamagedVersion> {
        let damage = &self.0.damage;
        match damage.any_unproved.load(Ordering::Relaxed) {
            true => damage.all(false),
            false => Vec::new(),
        }
    }

    /// The record of exactly this version, for a member that has a damaged one. `None`: the
    /// version is not kept here (any more).
    pub fn record_of(&self, version: &DamagedVersion) -> Result<Option<Bytes>, Error> {
        let DamagedVersion { key, main } = version;
        let find = |trees: &ordered_index::Snapshot| trees::find(trees, key, *main);
        let known = find(&self.0.reader.pin());
        known
            .map(|known| self.0.record(known.place, *main, find))
            .transpose()
    }

    /// Writes a damaged version again, from the record that another member has of it.
    /// False: it is not damaged, or not kept here any more.
    pub fn mend_version(&self, version: &DamagedVersion, record: &Bytes) -> Result<bool, Error> {
        let stored = Stored::decode(KIND_KEY, record);
        let fits = stored
            .is_ok_and(|stored| stored.key == version.key && stored.revision.main == version.main);
        if !fits {
            return Err(Error::Replay(format!(
                "a record that was sent for key {} at revision {} is another one",
                shown(&version.key),
                version.main
            )));
        }
        self.0.mend(version, record)
    }

    /// The [`Lineage`] of this version, without its value.
    pub fn lineage_of(&self, version: &Version) -> Result<Lineage, Error> {
        self.0.lineage_at(&version.key, version.main, version.place)
    }
}

impl Applier {
    /// Writes damaged records again that are proved by what is left of them.
    pub(crate) fn mend_what_is_proved(&self) {
        let shared = &self.engine.0;
        if !shared.damage.any_proved.load(Ordering::Relaxed) {
            return;
        }
        for version in shared.damage.all(true) {
            let find =
                |trees: &ordered_index::Snapshot| trees::find(trees, &version.key, version.main);
            let known = find(&shared.reader.pin());
            let payload = known.and_then(|known| shared.salvaged(&version, known.place));
            let outcome = payload.map(|payload| shared.mend(&version, &payload));
            if let Some(Err(error)) = outcome {
                tracing::warn!(%error, "a damaged record could not be written again");
            }
            shared.damage.forget(&version);
        }
    }
}

impl Shared {
    /// Writes the record of `version` again; `payload` may lack the zeros at its end. False:
    /// the version is not kept any more, or its record has another length.
    fn mend(&self, version: &DamagedVersion, payload: &[u8]) -> Result<bool, Error> {
        let _stay = self.damage.stay();
        let known = trees::find(&self.reader.pin(), &version.key, version.main);
        let kv_end =
            KeyHeader::decode(payload).map(|header| KEY_HEADER_BYTES + header.kv_bytes as usize);
        let payload = kv_end.ok().and_then(|end| payload.get(..end));
        let mended = match (known, payload) {
            (Some(known), Some(payload)) => self.write_again(known.place, payload)?,
            _ => false,
        };
        self.damage.forget(version);
        if mended {
            tracing::warn!(
                key = %shown(&version.key),
                revision = version.main,
                "a damaged value was written again from a sound copy"
            );
        }
        Ok(mended)
    }

    fn write_again(&self, place: Place, payload: &[u8]) -> Result<bool, Error> {
        let zeros = vec![0; padding(payload.len())];
        let record = Record {
            kind: KIND_KEY,
            parts: &[payload, &zeros],
        };
        let whole = value_log::Log::record_bytes(payload.len() + zeros.len());
        if whole as u64 != place.record_bytes() {
            return Ok(false);
        }
        let mended = self.log.mend(place.position(), &record)?;
        self.damage.spoiled_now().remove(&place.segment());
        Ok(mended)
    }

    /// Notes a damaged record that reclaim has met, and keeps its segment.
    pub(crate) fn keep_segment_of(&self, known: Known) {
        if let Err(error) = self.read_in_history(known.place, known.main) {
            tracing::error!(%error, "a segment with a damaged record is not reclaimed");
        }
        let mut spoiled = self.damage.spoiled_now();
        spoiled.insert(known.place.segment());
    }

    fn salvaged(&self, version: &DamagedVersion, place: Place) -> Option<Vec<u8>> {
        let suspect = self.suspect(place)?;
        salvage::payload(&suspect, &version.key, version.main)
    }

    fn suspect(&self, place: Place) -> Option<value_log::Suspect> {
        let length = place.record_bytes() as usize;
        self.log.suspect(place.position(), length).ok()
    }

    /// The payload of the record at `place`, which fails its checksum, where what is
    /// left of it proves what was written.
    pub(crate) fn salvage_record(&self, key: &[u8], main: i64, place: Place) -> Option<Bytes> {
        let suspect = self.suspect(place)?;
        let payload = salvage::payload(&suspect, key, main)?;
        self.damage.note(key, main, true);
        Some(payload.into())
    }

    /// The header of the record at `place`, which fails its checksum, where what is left
    /// of it proves what was written.
    pub(crate) fn salvage_header(&self, key: &[u8], main: i64, place: Place) -> Option<KeyHeader> {
        salvage::header(&self.suspect(place)?, key, main)
    }

    /// The version at `place`, for a caller that does not know its key.
    pub(crate) fn read_in_history(&self, place: Place, main: i64) -> Result<Stored, Error> {
        let error = match self.read_at(place, main) {
            Ok(stored) => return Ok(stored),
            Err(error) => error,
        };
        let suspect = damage_in(&error).and_then(|_| self.suspect(place));
        let Some(suspect) = suspect else {
            return Err(error);
        };
        let trees = self.reader.pin();
        let is_here =
            |key: &Bytes| trees::find(&trees, key, main).is_some_and(|known| known.place == place);
        match salvage::keys(&suspect).into_iter().find(is_here) {
            Some(key) => {
                let left = self.salvage_record(&key, main, place);
                let stored = left.and_then(|payload| Stored::decode(KIND_KEY, &payload).ok());
                stored.ok_or_else(|| self.of_version(error, &key, main))
            }
            None => Err(error),
        }
    }

    /// The error for a version that cannot be read: where its bytes are damaged, one that
    /// names its key; and the version is noted.
    pub(crate) fn of_version(&self, error: Error, key: &[u8], main: i64) -> Error {
        let Some(cause) = damage_in(&error) else {
            return error;
        };
        self.damage.note(key, main, false);
        tracing::error!(key = %shown(key), revision = main, %cause, "a value is damaged");
        Error::DamagedValue {
            key: shown(key),
            revision: main,
            cause,
        }
    }
}

/// What is damaged, and where; `None`: the error says nothing of the bytes on the disk.
pub(crate) fn damage_in(error: &Error) -> Option<String> {
    match error {
        Error::Log(value_log::Error::Damaged {
            file, offset, what, ..
        }) => Some(format!("{} at byte {offset}: {what}", file.display())),
        Error::Log(value_log::Error::Io { path, source, .. })
            if source.raw_os_error() == Some(EIO) =>
        {
            Some(format!("{}: {source}", path.display()))
        }
        Error::RecordUnreadable {
            segment,
            offset,
            what,
        } => Some(format!("segment {segment:08x} at byte {offset}: {what}")),
        _ => None,
    }
}

/// A key as messages show it.
fn shown(key: &[u8]) -> String {
    let part = &key[..key.len().min(SHOWN_BYTES)];
    let more = if part.len() < key.len() { ".." } else { "" };
    format!("\"{}\"{more}", part.escape_ascii())
}
