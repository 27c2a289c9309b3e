//! A batch becomes one group frame of the log.
//!
//! What is refused here is refused before anything is written: too large, no
//! memory for more keys, no room on the disk. Deletes and state changes pass
//! at the limits, so that a full store can be emptied; and what deletes may
//! fill a segment, so that what was put a little at a time can go at once.

use crate::engine::{Engine, Shared};
use crate::entry::HARD_STATE_BYTES;
use crate::format::{KEY_HEADER_BYTES, KIND_HARD_STATE, KIND_KEY, KIND_STATE, STATE_HEADER_BYTES};
use crate::{Batch, Change, Error, HardState, KeyChange, place, record};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value_log::{Appended, Body, BodyBuilder, Log, Record, Tag};

/// Share of the last segment that is kept free for hard states, and its upper limit.
const VOTES_PART: u64 = 16;
const VOTES_BYTES_MAX: u64 = 64 << 10;

/// What padding consists of.
pub(crate) static ZEROS: [u8; 4096] = [0; 4096];

/// The records of a batch.
pub(crate) fn encode(batch: &Batch) -> Result<Body, Error> {
    let invalid = |what: String| Error::InvalidBatch {
        index: batch.index,
        what,
    };
    record::check(batch).map_err(invalid)?;
    let bytes: u64 = batch.changes.iter().map(log_bytes).sum();
    let mut body = BodyBuilder::with_capacity(bytes as usize);
    for change in &batch.changes {
        push(&mut body, change).map_err(invalid)?;
    }
    let body = body.finish();
    assert_eq!(
        body.bytes().len() as u64,
        bytes,
        "changes are as long as they say"
    );
    Ok(body)
}

fn push(body: &mut BodyBuilder, change: &Change) -> Result<(), String> {
    match change {
        Change::Key(key) => {
            let header = &record::header_of(key)?.encode();
            let padding = &ZEROS[..place::padding(header.len() + key.kv.len())];
            body.push(&Record {
                kind: KIND_KEY,
                parts: &[header, &key.kv, padding],
            });
        }
        Change::State { kind, payload } => {
            let header: &[u8; STATE_HEADER_BYTES] = &[*kind, 0, 0, 0, 0, 0, 0, 0];
            body.push(&Record {
                kind: KIND_STATE,
                parts: &[header, payload],
            });
        }
    }
    Ok(())
}

fn log_bytes(change: &Change) -> u64 {
    match change {
        Change::Key(key) => key.log_bytes(),
        Change::State { payload, .. } => {
            Log::record_bytes(STATE_HEADER_BYTES + payload.len()) as u64
        }
    }
}

impl Shared {
    /// Whether the batch may be written at all.
    pub(crate) fn check(&self, batch: &Batch, body: &Body) -> Result<(), Error> {
        self.check_open()?;
        self.check_size(batch, body)?;
        self.check_room(batch)?;
        self.make_room(body.bytes().len())
    }

    /// Keeps a part of the present segment free when the log can make no next one: a member
    /// that can take no more entries can still write votes and terms there.
    pub(crate) fn make_room(&self, body_bytes: usize) -> Result<(), Error> {
        // A hard state may go with it.
        let bytes = body_bytes + Log::record_bytes(HARD_STATE_BYTES);
        let kept_bytes = (self.log.segment_bytes() / VOTES_PART).min(VOTES_BYTES_MAX);
        Ok(self.log.make_room_beside(bytes, kept_bytes as usize)?)
    }

    pub(crate) fn append_entry(
        &self,
        batch: &Batch,
        body: &Body,
        state: Option<HardState>,
    ) -> Result<Appended, Error> {
        let mut appended = self.write(tag(batch), Some(body), state)?;
        // The hard state behind the entry's records is not part of the entry.
        appended.positions.truncate(batch.changes.len());
        assert_eq!(
            appended.positions.len(),
            batch.changes.len(),
            "a record without a position"
        );
        Ok(appended)
    }

    pub(crate) fn append_hard_state(&self, state: HardState) -> Result<Appended, Error> {
        self.write(Tag::default(), None, Some(state))
    }

    fn write(
        &self,
        tag: Tag,
        body: Option<&Body>,
        state: Option<HardState>,
    ) -> Result<Appended, Error> {
        let record = state.map(|state| {
            let payload: &[u8] = &state.encode();
            Body::encode(&[Record {
                kind: KIND_HARD_STATE,
                parts: &[payload],
            }])
        });
        self.check_open()?;
        let bodies: Vec<&Body> = body.into_iter().chain(&record).collect();
        let appended = self.log.append_bodies(tag, &bodies)?;
        if let Some(state) = state {
            self.books.hard_state().absorb(state);
        }
        self.note_appended(&appended);
        Ok(appended)
    }

    fn note_appended(&self, appended: &Appended) {
        self.appended
            .fetch_max(appended.sequence.0, Ordering::AcqRel);
    }
}

impl KeyChange {
    /// Bytes that it takes in the log, to the byte.
    pub fn log_bytes(&self) -> u64 {
        KeyChange::log_bytes_of(self.kv.len())
    }

    /// The same for any change with an encoded `KeyValue` of `kv_bytes`.
    pub fn log_bytes_of(kv_bytes: usize) -> u64 {
        let payload_bytes = KEY_HEADER_BYTES + kv_bytes;
        Log::record_bytes(payload_bytes + place::padding(payload_bytes)) as u64
    }
}

impl Engine {
    /// Size of a log segment, chosen when the directory was created.
    pub fn segment_bytes(&self) -> u64 {
        self.0.log.segment_bytes()
    }

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
        if self.log.spare_segments() > 0 {
            return Ok(());
        }
        let room = self.disk.space(&self.directory);
        let room = room.map_err(|source| space_unknown(&self.directory, source))?;
        let reserve_bytes = self.options.reserve_bytes + self.log.segment_bytes();
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
    fn check_size(&self, batch: &Batch, body: &Body) -> Result<(), Error> {
        let deletions = batch.keys().filter(|key| key.tombstone);
        let deleted_bytes: u64 = deletions.map(KeyChange::log_bytes).sum();
        let batch_bytes = body.bytes().len() as u64 - deleted_bytes;
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

/// Error when the file system does not report its free space: it is unknown whether
/// another segment can be made, so nothing is written.
fn space_unknown(directory: &Path, source: io::Error) -> Error {
    let cause = value_log::Error::Io {
        action: "ask for the free space of",
        path: directory.to_owned(),
        source: Arc::new(source),
    };
    Error::NoSegment { cause }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_refused_as_a_shortage_when_the_free_space_is_unknown() {
        const EIO: i32 = 5;
        const EACCES: i32 = 13;
        for number in [EIO, EACCES] {
            let refused = space_unknown(Path::new("d"), io::Error::from_raw_os_error(number));
            assert!(refused.is_shortage() && !refused.is_damage(), "{refused:?}");
            let text = refused.to_string();
            assert!(text.contains("try again later"), "{text}");
            assert!(text.contains("the free space of d"), "{text}");
        }
    }
}
