//! How the receiver stores the contents of pieces.
//!
//! ```text
//!   version ─► record in a sorted segment ─► place ─┬► tree that is being built
//!                                                   └► entry of the unnamed checkpoint
//! ```
//!
//! The sender is not trusted to send what it should: order, revisions and what
//! compaction leaves are checked, for the index relies on them.

use super::SnapshotInfo;
use super::format::{ENVELOPE_BYTES, Foot, Kind};
use crate::checkpoint::incoming::IncomingCheckpoint;
use crate::directory::Directory;
use crate::format::{KEY_HEADER_BYTES, KIND_KEY, KeyHeader};
use crate::live::Live;
use crate::record::ZEROS;
use crate::record_pointer::{RecordPointer, padding};
use crate::trees::{CURRENT, HIDDEN, HISTORY, OF_VERSIONS, VersionEntry};
use crate::{Error, Options, hidden, history_key, state_hash};
use bytes::Bytes;
use ordered_index::BulkLoad;
use value_log::{Log, Record, Relocation};

/// A state that is being built. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) info: SnapshotInfo,
    pub(crate) checkpoint: IncomingCheckpoint,
    pub(crate) relocation: Relocation,
    pub(crate) trees: [BulkLoad; OF_VERSIONS.len()],
    pub(crate) live: Live,
    /// Sum over the keys in the trees ([`crate::StateHash::keys`]).
    pub(crate) keys: u64,
    pub(crate) state: Vec<u8>,
    limits: IntakeLimits,
    /// Pieces taken.
    number: u64,
    kind: Kind,
    last: Option<Last>,
    last_hidden: i64,
    seen: Foot,
    /// Where in the present piece the record begins that is being taken.
    at: usize,
}

/// Limits of what an intake may take.
#[derive(Debug)]
struct IntakeLimits {
    record_bytes_max: u64,
    memory_bytes_max: u64,
    /// Free space that must be left.
    reserve_bytes: u64,
}

/// The version before.
#[derive(Debug)]
struct Last {
    key: Bytes,
    main: i64,
    /// It is what compaction leaves of its key.
    compacted: bool,
}

impl Intake {
    pub(crate) fn begin(
        log: &Log,
        directory: &Directory,
        options: &Options,
    ) -> Result<Intake, Error> {
        // The log must find room for its next segments while this grows.
        let segments = options.log.spare_segments as u64 + 1;
        let reserve_bytes = directory.reserve_bytes + segments * options.log.segment_bytes;
        Ok(Intake {
            info: SnapshotInfo::default(),
            checkpoint: IncomingCheckpoint::begin(directory)?,
            relocation: log.write_sorted(reserve_bytes)?,
            trees: OF_VERSIONS.map(|_| BulkLoad::new()),
            live: Live::default(),
            keys: 0,
            state: Vec::new(),
            limits: IntakeLimits {
                record_bytes_max: log.group_bytes_max(),
                memory_bytes_max: options.memory_bytes_max,
                reserve_bytes,
            },
            number: 0,
            kind: Kind::Head,
            last: None,
            last_hidden: 0,
            seen: Foot::default(),
            at: 0,
        })
    }

    /// Takes the next piece; true when it was the last, and everything is stable.
    pub(crate) fn take(
        &mut self,
        info: SnapshotInfo,
        kind: Kind,
        piece: &Bytes,
    ) -> Result<bool, Error> {
        self.info = info;
        self.at = 0;
        self.check_room()?;
        if self.kind < Kind::Versions && kind >= Kind::Versions {
            self.checkpoint.end_state()?;
        }
        self.kind = kind;
        let payload = piece.slice(ENVELOPE_BYTES..);
        match kind {
            Kind::Head => Ok(()),
            Kind::State => self.take_state(&payload),
            Kind::Versions => self.take_records(&payload, Intake::take_version),
            Kind::Hidden => self.take_records(&payload, Intake::take_hidden),
            Kind::Foot => self.finish(&payload),
        }?;
        self.check_memory()?;
        self.number += 1;
        Ok(kind == Kind::Foot)
    }

    /// Compares the new index alone with the limit: the old one goes with the installation.
    fn check_memory(&self) -> Result<(), Error> {
        let index_bytes = self.trees.iter().map(BulkLoad::memory_bytes).sum();
        let memory_bytes_max = self.limits.memory_bytes_max;
        if index_bytes <= memory_bytes_max {
            return Ok(());
        }
        Err(Error::SnapshotMemoryLimit {
            index_bytes,
            memory_bytes_max,
        })
    }

    fn check_room(&self) -> Result<(), Error> {
        let directory = &self.checkpoint.directory;
        let unknown = Error::disk("ask for the free space of", &directory.path);
        directory.check_available(self.limits.reserve_bytes, unknown)
    }

    fn take_state(&mut self, part: &[u8]) -> Result<(), Error> {
        self.state.extend(part);
        self.seen.state_bytes += part.len() as u64;
        self.checkpoint.add_state(part)
    }

    fn take_records(
        &mut self,
        payload: &Bytes,
        take: fn(&mut Intake, &KeyHeader, Bytes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while self.at < payload.len() {
            let header =
                KeyHeader::decode(&payload[self.at..]).map_err(|what| self.misfit(what))?;
            let end = self.at + KEY_HEADER_BYTES + header.kv_bytes as usize;
            if header.main > self.info.revision as u64 {
                return Err(self.misfit("a version behind the snapshot's revision"));
            }
            take(self, &header, payload.slice(self.at..end))?;
            self.at = end;
        }
        Ok(())
    }

    fn take_version(&mut self, header: &KeyHeader, record: Bytes) -> Result<(), Error> {
        let (key, main) = (key_of(header, &record), header.main as i64);
        let first_of_key = self.last.as_ref().is_none_or(|last| last.key != key);
        self.check_order(&key, main, first_of_key)?;
        let compacted = self.check_compaction(header, first_of_key)?;
        let version = self.write(header, &record)?;
        if first_of_key && !version.tombstone {
            self.keys = self
                .keys
                .wrapping_add(state_hash::of_key(&key, version.main));
            self.enter(CURRENT, &key, version)?;
        } else {
            self.enter(HISTORY, &history_key::encode(&key, header.main), version)?;
        }
        self.last = Some(Last {
            key,
            main,
            compacted,
        });
        self.seen.versions += 1;
        Ok(())
    }

    fn check_order(&self, key: &Bytes, main: i64, first_of_key: bool) -> Result<(), Error> {
        let ascends = match &self.last {
            Some(last) if first_of_key => last.key < key,
            Some(last) => last.main > main,
            None => true,
        };
        if ascends {
            return Ok(());
        }
        Err(self.misfit("its keys do not ascend, or its revisions not fall"))
    }

    /// True for the version that compaction has left of its key.
    fn check_compaction(&self, header: &KeyHeader, first_of_key: bool) -> Result<bool, Error> {
        let (main, compacted) = (header.main as i64, self.info.compacted);
        if main > compacted {
            return Ok(false);
        }
        let one_too_many = !first_of_key && self.last.as_ref().is_some_and(|last| last.compacted);
        if one_too_many || (header.tombstone && main != compacted) {
            return Err(self.misfit("a version that the compaction has dropped"));
        }
        Ok(true)
    }

    fn take_hidden(&mut self, header: &KeyHeader, record: Bytes) -> Result<(), Error> {
        let main = header.main as i64;
        if main < self.last_hidden || main <= self.info.compacted {
            return Err(self.misfit("a hidden version out of order, or compacted"));
        }
        let version = self.write(header, &record)?;
        let key = hidden::encode(&key_of(header, &record), version);
        self.enter(HIDDEN, &key, version)?;
        self.last_hidden = main;
        self.seen.hidden += 1;
        Ok(())
    }

    /// Writes the record where it will stay.
    fn write(&mut self, header: &KeyHeader, record: &Bytes) -> Result<VersionEntry, Error> {
        let bytes_max = self.limits.record_bytes_max;
        if Log::record_bytes(record.len()) as u64 > bytes_max {
            return Err(Error::TooLarge {
                batch_bytes: record.len() as u64,
                batch_bytes_max: bytes_max,
            });
        }
        let zeros = &ZEROS[..padding(record.len())];
        let position = self.relocation.append(Record {
            kind: KIND_KEY,
            parts: &[record, zeros],
        })?;
        let record_bytes = Log::record_bytes(record.len() + zeros.len()) as u64;
        let version = VersionEntry {
            pointer: RecordPointer::new(position, record_bytes),
            main: header.main as i64,
            tombstone: header.tombstone,
        };
        self.live.born(version.pointer);
        Ok(version)
    }

    fn enter(&mut self, tree: usize, key: &[u8], version: VersionEntry) -> Result<(), Error> {
        let entry = version.entry();
        let pushed = self.trees[tree].push(key, entry);
        pushed.map_err(|error| self.misfit(&error.to_string()))?;
        self.checkpoint.add(tree, key, entry)
    }

    /// Checks the foot and makes everything stable.
    fn finish(&mut self, payload: &[u8]) -> Result<(), Error> {
        let foot = Foot::decode(payload).ok_or_else(|| self.misfit("its foot has another size"))?;
        if foot != self.seen {
            let seen = self.seen;
            return Err(self.misfit(&format!("it ends with {foot:?}, and {seen:?} came")));
        }
        self.relocation.complete()?;
        self.checkpoint.complete()
    }

    /// The error for what does not fit at the record that is being taken.
    fn misfit(&self, what: &str) -> Error {
        Error::Piece {
            number: self.number,
            offset: (ENVELOPE_BYTES + self.at) as u64,
            what: what.to_owned(),
        }
    }
}

fn key_of(header: &KeyHeader, record: &Bytes) -> Bytes {
    let start = KEY_HEADER_BYTES + usize::from(header.key_offset);
    record.slice(start..start + header.key_bytes as usize)
}
