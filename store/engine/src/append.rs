//! A batch becomes one group frame of the log.
//!
//! A batch that is too large, or for which the index has no memory or the disk no room, is
//! refused before anything is written. Deletes and state changes pass
//! at the limits, so that a full store can be emptied; and what deletes may
//! fill a segment, so that what was put a little at a time can go at once.

use crate::entry::HARD_STATE_BYTES;
use crate::format::KIND_HARD_STATE;
use crate::log_view::LogView;
use crate::parts::Parts;
use crate::{Batch, Error, HardState};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use value_log::{Appended, Body, Log, Record, Tag};

/// Share of the last segment that is kept free for hard states, and its upper limit.
const VOTES_PART: u64 = 16;
const VOTES_BYTES_MAX: u64 = 64 << 10;

/// Whether the batch may be written at all.
pub(crate) fn check(parts: &Parts, batch: &Batch, body: &Body) -> Result<(), Error> {
    parts.records.lifecycle.check_open()?;
    check_size(batch, body, parts.options.batch_bytes_max)?;
    check_room(parts, batch)?;
    parts.records.log_view.make_room(body.bytes().len())
}

/// Deletions do not count: the log itself says when no segment holds them.
fn check_size(batch: &Batch, body: &Body, batch_bytes_max: u64) -> Result<(), Error> {
    let batch_bytes = match batch.keys().any(|key| key.tombstone) {
        true => bytes_without_deletions(batch, body),
        false => body.bytes().len() as u64,
    };
    if batch_bytes > batch_bytes_max {
        return Err(Error::TooLarge {
            batch_bytes,
            batch_bytes_max,
        });
    }
    Ok(())
}

fn bytes_without_deletions(batch: &Batch, body: &Body) -> u64 {
    let records = batch.changes.iter().zip(body.record_bytes());
    let counted = records.filter(|(change, _)| !change.is_deletion());
    counted.map(|(_, bytes)| bytes).sum()
}

fn check_room(parts: &Parts, batch: &Batch) -> Result<(), Error> {
    if batch.keys().all(|key| key.tombstone) {
        return Ok(());
    }
    let index_bytes = parts.records.index.index_bytes();
    let memory_bytes_max = parts.options.memory_bytes_max;
    if index_bytes >= memory_bytes_max {
        return Err(Error::MemoryLimit {
            index_bytes,
            memory_bytes_max,
        });
    }
    check_disk(parts)
}

/// Asks the file system only when the log has used up its spares, or cannot grow.
fn check_disk(parts: &Parts) -> Result<(), Error> {
    let (log, directory) = (&parts.records.log_view.log, &parts.directory);
    if log.has_room_ahead() {
        return Ok(());
    }
    let reserve_bytes = directory.reserve_bytes + log.segment_bytes();
    let unknown = |source| space_unknown(directory.path.clone(), source);
    directory.check_available(reserve_bytes, unknown)
}

/// Error when the file system does not report its free space: it is unknown whether
/// another segment can be made, so nothing is written.
fn space_unknown(path: PathBuf, source: io::Error) -> Error {
    let cause = value_log::Error::Io {
        action: "ask for the free space of",
        path,
        source: Arc::new(source),
    };
    Error::NoSegment { cause }
}

impl LogView {
    /// Keeps a part of the present segment free when the log can make no next one: a member
    /// that can take no more entries can still write votes and terms there.
    pub(crate) fn make_room(&self, body_bytes: usize) -> Result<(), Error> {
        // A hard state may go with it.
        let bytes = body_bytes + Log::record_bytes(HARD_STATE_BYTES);
        let kept_bytes = (self.log.segment_bytes() / VOTES_PART).min(VOTES_BYTES_MAX);
        Ok(self.log.make_room(bytes, kept_bytes as usize)?)
    }

    pub(crate) fn append_entry(
        &self,
        batch: &Batch,
        body: &Body,
        state: Option<HardState>,
    ) -> Result<Appended, Error> {
        let mut appended = self.write(tag(batch), Some(body), state)?;
        // The hard state behind the entry's records is not part of the entry.
        appended.truncate(batch.changes.len());
        assert_eq!(
            appended.positions.len(),
            batch.changes.len(),
            "a record without a position"
        );
        Ok(appended)
    }

    pub(crate) fn lengthen_last_entry(
        &self,
        batch: &Batch,
        body: &Body,
    ) -> Result<Option<Appended>, Error> {
        Ok(self.log.lengthen_last_group(tag(batch), body)?)
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
            let payload = state.encode();
            Body::encode(&[Record {
                kind: KIND_HARD_STATE,
                parts: &[payload.as_flattened()],
            }])
        });
        let bodies: Vec<&Body> = body.into_iter().chain(&record).collect();
        let appended = self.log.append_bodies(tag, &bodies)?;
        if let Some(state) = state {
            self.accounting.hard_state.lock().absorb(state);
        }
        self.note_appended(&appended);
        Ok(appended)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_refused_as_a_shortage_when_the_free_space_is_unknown() {
        const EIO: i32 = 5;
        const EACCES: i32 = 13;
        for number in [EIO, EACCES] {
            let refused = space_unknown("d".into(), io::Error::from_raw_os_error(number));
            assert!(refused.is_shortage() && !refused.is_damage(), "{refused:?}");
            let text = refused.to_string();
            assert!(text.contains("try again later"), "{text}");
            assert!(text.contains("the free space of d"), "{text}");
        }
    }
}
