//! Writing damaged records again, and reading a record that is damaged but proved.

use crate::damage::DamagedVersion;
use crate::format::{KEY_HEADER_BYTES, KIND_KEY, KeyHeader};
use crate::read::Records;
use crate::record_pointer::{RecordPointer, padding};
use crate::short_key::KIND_SHORT_KEY;
use crate::trees::VersionEntry;
use crate::versions::VersionSize;
use crate::{Error, KeyChange, salvage, short_key, trees};
use bytes::Bytes;
use value_log::{Log, Record, Suspect};

/// Bytes of a key that a message shows.
const SHOWN_BYTES: usize = 200;

impl Records {
    /// The record of exactly this version; `None`: the version is not kept here (any more).
    pub(crate) fn record_of(&self, version: &DamagedVersion) -> Result<Option<Bytes>, Error> {
        let DamagedVersion { key, main } = version;
        let find = |trees: &ordered_index::Snapshot| trees::find(trees, key, *main);
        let entry = find(&self.index.reader.pin());
        entry
            .map(|entry| self.record(entry.pointer, *main, find))
            .transpose()
    }

    /// Writes a damaged version again, from a record that another member has sent.
    pub(crate) fn mend_version(
        &self,
        version: &DamagedVersion,
        record: &Bytes,
    ) -> Result<bool, Error> {
        let stored = KeyChange::decode(KIND_KEY, record);
        let fits = stored
            .is_ok_and(|stored| stored.key == version.key && stored.revision.main == version.main);
        if !fits {
            return Err(Error::Replay(format!(
                "a record that was sent for key {} at revision {} is another one",
                shown(&version.key),
                version.main
            )));
        }
        self.mend(version, record)
    }

    /// Writes damaged records again that are proved by what is left of them.
    pub(crate) fn mend_what_is_proved(&self) {
        for version in self.damage.all(true) {
            let entry = trees::find(&self.index.reader.pin(), &version.key, version.main);
            let suspect = entry.and_then(|entry| self.suspect(entry.pointer));
            let payload =
                suspect.and_then(|suspect| salvage::payload(&suspect, &version.key, version.main));
            let outcome = payload.map(|payload| self.mend(&version, &payload));
            if let Some(Err(error)) = outcome {
                tracing::warn!(%error, "a damaged record could not be written again");
            }
            self.damage.forget(&version);
        }
    }

    /// Writes the record of `version` again; `payload` may lack the zeros at its end. False:
    /// the version is not kept any more, or its record has another length.
    fn mend(&self, version: &DamagedVersion, payload: &[u8]) -> Result<bool, Error> {
        let _mending = self.damage.mending.lock();
        let entry = trees::find(&self.index.reader.pin(), &version.key, version.main);
        let kv_end =
            KeyHeader::decode(payload).map(|header| KEY_HEADER_BYTES + header.kv_bytes as usize);
        let payload = kv_end.ok().and_then(|end| payload.get(..end));
        let mended = match (entry, payload) {
            (Some(entry), Some(payload)) => self.write_again(entry.pointer, payload)?,
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

    /// Writes a long payload, with the header that the record at `pointer` has room for.
    fn write_again(&self, pointer: RecordPointer, payload: &[u8]) -> Result<bool, Error> {
        let has_room = |bytes: usize| Log::record_bytes(bytes) as u64 == pointer.record_bytes();
        let zeros = vec![0; padding(payload.len())];
        let log = &self.log_view.log;
        let mended = if has_room(payload.len() + zeros.len()) {
            let parts: &[&[u8]] = &[payload, &zeros];
            let kind = KIND_KEY;
            log.mend(pointer.position(), &Record { kind, parts })?
        } else if let Some((short, kv)) = short_key::of_long(payload)
            && has_room(short.len() + kv.len())
        {
            let parts: &[&[u8]] = &[&short, kv];
            let kind = KIND_SHORT_KEY;
            log.mend(pointer.position(), &Record { kind, parts })?
        } else {
            return Ok(false);
        };
        self.damage.spoiled.lock().remove(&pointer.segment());
        Ok(mended)
    }

    /// Notes a damaged record that reclaim has met, and keeps its segment.
    pub(crate) fn keep_segment_of(&self, entry: VersionEntry) {
        if let Err(error) = self.read_in_history(entry.pointer, entry.main) {
            tracing::error!(%error, "a segment with a damaged record is not reclaimed");
        }
        self.damage.spoiled.lock().insert(entry.pointer.segment());
    }

    fn suspect(&self, pointer: RecordPointer) -> Option<Suspect> {
        let length = pointer.record_bytes() as usize;
        self.log_view.log.suspect(pointer.position(), length).ok()
    }

    /// The version at `pointer`, whose record fails its checksum, where what is left of it
    /// proves what was written.
    pub(crate) fn salvage_version(
        &self,
        key: &[u8],
        main: i64,
        pointer: RecordPointer,
    ) -> Option<KeyChange> {
        let payload = salvage::payload(&self.suspect(pointer)?, key, main)?;
        self.damage.note(key, main, true);
        KeyChange::decode(KIND_KEY, &payload.into()).ok()
    }

    /// The header of the record at `pointer`, which fails its checksum, where what is left
    /// of it proves what was written.
    pub(crate) fn salvage_header(
        &self,
        key: &[u8],
        main: i64,
        pointer: RecordPointer,
    ) -> Option<KeyHeader> {
        salvage::header(&self.suspect(pointer)?, key, main)
    }

    /// The lengths of the version at `pointer`, for a caller that does not know its key.
    pub(crate) fn size_in_history(
        &self,
        pointer: RecordPointer,
        main: i64,
    ) -> Result<VersionSize, Error> {
        if let Ok(header) = self.header_at(pointer, main) {
            return Ok(VersionSize::of(&header));
        }
        let version = self.read_in_history(pointer, main)?;
        Ok(VersionSize {
            revision: version.revision,
            tombstone: version.tombstone,
            kv_bytes: version.kv.len(),
        })
    }

    /// The version at `pointer`, for a caller that does not know its key.
    pub(crate) fn read_in_history(
        &self,
        pointer: RecordPointer,
        main: i64,
    ) -> Result<KeyChange, Error> {
        let error = match self.read_at(pointer, main) {
            Ok(stored) => return Ok(stored),
            Err(error) => error,
        };
        let suspect = error.damage().and_then(|_| self.suspect(pointer));
        let Some(suspect) = suspect else {
            return Err(error);
        };
        let trees = self.index.reader.pin();
        let is_here = |key: &Bytes| {
            trees::find(&trees, key, main).is_some_and(|entry| entry.pointer == pointer)
        };
        match salvage::keys(&suspect).into_iter().find(is_here) {
            Some(key) => {
                let stored = self.salvage_version(&key, main, pointer);
                stored.ok_or_else(|| self.of_version(error, &key, main))
            }
            None => Err(error),
        }
    }

    /// The error for a version that cannot be read: where its bytes are damaged, one that
    /// names its key; and the version is noted.
    pub(crate) fn of_version(&self, error: Error, key: &[u8], main: i64) -> Error {
        let Some(cause) = error.damage() else {
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

/// A key as messages show it.
pub(crate) fn shown(key: &[u8]) -> String {
    let part = &key[..key.len().min(SHOWN_BYTES)];
    let more = if part.len() < key.len() { ".." } else { "" };
    format!("\"{}\"{more}", part.escape_ascii())
}
