//! A batch becomes one group frame of the log.
//!
//! What is refused here is refused before anything is written: too large, no
//! memory for more keys, no room on the disk. Deletes and state changes pass
//! at the limits, so that a full store can be emptied; and what deletes may
//! fill a segment, so that what was put a little at a time can go at once.

use crate::engine::{Engine, Shared};
use crate::format::{KEY_HEADER_BYTES, KIND_KEY, KIND_STATE, STATE_HEADER_BYTES};
use crate::{Batch, Change, Error, KeyChange, place, record};
use std::sync::atomic::Ordering;
use value_log::{Appended, Log, Record, Tag};

static ZEROS: [u8; 4096] = [0; 4096];

/// The bytes of a record's header; the rest is the caller's.
enum Header {
    Key([u8; KEY_HEADER_BYTES]),
    State([u8; STATE_HEADER_BYTES]),
}

pub(crate) fn append(shared: &Shared, batch: &Batch) -> Result<Appended, Error> {
    let headers = headers(batch)?;
    let both = batch.changes.iter().zip(&headers);
    let parts: Vec<[&[u8]; 3]> = both.map(|(change, header)| parts(change, header)).collect();
    shared.check_open()?;
    shared.check_size(batch, &parts)?;
    shared.check_room(batch)?;
    let records: Vec<Record<'_>> = batch.changes.iter().zip(&parts).map(record_of).collect();
    let appended = shared
        .log
        .append_group(tag(batch), &records)
        .map_err(translate)?;
    assert_eq!(
        appended.positions.len(),
        batch.changes.len(),
        "a record without a position"
    );
    shared
        .appended
        .fetch_max(appended.sequence.0, Ordering::AcqRel);
    Ok(appended)
}

impl KeyChange {
    /// Bytes that it takes in the log, to the byte.
    pub fn log_bytes(&self) -> u64 {
        KeyChange::log_bytes_of(self.kv.len())
    }

    /// The same for any change whose encoded `KeyValue` has so many bytes.
    pub fn log_bytes_of(kv_bytes: usize) -> u64 {
        let payload_bytes = KEY_HEADER_BYTES + kv_bytes;
        Log::record_bytes(payload_bytes + place::padding(payload_bytes)) as u64
    }
}

impl Engine {
    /// Bytes that all changes of one batch may take in the log, deletions
    /// included: a batch is one frame, and a frame lies in one segment.
    pub fn batch_log_bytes_max(&self) -> u64 {
        self.0.log.group_bytes_max()
    }
}

impl Shared {
    fn check_room(&self, batch: &Batch) -> Result<(), Error> {
        if batch.keys().all(|key| key.tombstone) {
            return Ok(());
        }
        let index_bytes = self.index_bytes.load(Ordering::Relaxed);
        let memory_bytes_max = self.options.memory_bytes_max;
        if index_bytes >= memory_bytes_max {
            return Err(Error::MemoryLimit {
                index_bytes,
                memory_bytes_max,
            });
        }
        self.check_disk()
    }

    /// Asks the file system only when the log has used up its spares.
    fn check_disk(&self) -> Result<(), Error> {
        if self.log.status().spare_segments > 0 {
            return Ok(());
        }
        let room = self.disk.space(&self.directory);
        let room = room.map_err(Error::disk("ask for the free space of", &self.directory))?;
        let reserve_bytes = self.options.reserve_bytes + self.options.segment_bytes;
        if room.available_bytes >= reserve_bytes {
            return Ok(());
        }
        Err(Error::NoSpace {
            directory: self.directory.clone(),
            available_bytes: room.available_bytes,
            reserve_bytes,
        })
    }

    /// Deletions do not count: the log itself says when no segment holds them.
    fn check_size(&self, batch: &Batch, parts: &[[&[u8]; 3]]) -> Result<(), Error> {
        let payload = |parts: &[&[u8]; 3]| parts.iter().map(|part| part.len()).sum();
        let both = batch.changes.iter().zip(parts);
        let batch_bytes = both
            .filter(|(change, _)| !deletes(change))
            .map(|(_, parts)| Log::record_bytes(payload(parts)) as u64)
            .sum();
        let batch_bytes_max = self.options.batch_bytes_max;
        if batch_bytes > batch_bytes_max {
            return Err(Error::TooLarge {
                batch_bytes,
                batch_bytes_max,
            });
        }
        Ok(())
    }
}

fn deletes(change: &Change) -> bool {
    matches!(change, Change::Key(key) if key.tombstone)
}

/// The log's words for what has a name here.
fn translate(error: value_log::Error) -> Error {
    match error {
        value_log::Error::TooLarge { bytes, limit_bytes } => Error::TooLarge {
            batch_bytes: bytes,
            batch_bytes_max: limit_bytes,
        },
        value_log::Error::NoSpace {
            directory,
            needed_bytes,
            available_bytes,
        } => Error::NoSpace {
            directory,
            available_bytes,
            reserve_bytes: needed_bytes,
        },
        other => other.into(),
    }
}

fn tag(batch: &Batch) -> Tag {
    let (first, last) = batch.mains().unwrap_or((0, 0));
    Tag {
        term: batch.term,
        index: batch.index,
        first: first as u64,
        last: last as u64,
    }
}

fn headers(batch: &Batch) -> Result<Vec<Header>, Error> {
    let invalid = |what: String| Error::InvalidBatch {
        index: batch.index,
        what,
    };
    if batch.changes.is_empty() {
        return Err(invalid("it changes nothing".into()));
    }
    record::check(batch).map_err(invalid)?;
    batch
        .changes
        .iter()
        .map(|change| header(change).map_err(invalid))
        .collect()
}

fn header(change: &Change) -> Result<Header, String> {
    Ok(match change {
        Change::Key(key) => Header::Key(record::header_of(key)?.encode()),
        Change::State { kind, .. } => Header::State([*kind, 0, 0, 0, 0, 0, 0, 0]),
    })
}

fn parts<'a>(change: &'a Change, header: &'a Header) -> [&'a [u8]; 3] {
    match (change, header) {
        (Change::Key(key), Header::Key(bytes)) => {
            let padding = place::padding(bytes.len() + key.kv.len());
            [bytes, &key.kv, &ZEROS[..padding]]
        }
        (Change::State { payload, .. }, Header::State(bytes)) => [bytes, payload, &[]],
        _ => unreachable!("a header is made from its own change"),
    }
}

fn record_of<'a>((change, parts): (&Change, &'a [&'a [u8]; 3])) -> Record<'a> {
    let kind = if matches!(change, Change::Key(_)) {
        KIND_KEY
    } else {
        KIND_STATE
    };
    Record { kind, parts }
}
