//! The value log used as databases of metrics use a log: a put returns when it is in a
//! buffer, and whole buffers are made durable.
//!
//! ```text
//!   put ─► buffer being filled ─► buffer being written ─► durable
//!          └───── at most two buffers can be lost ─────┘
//! ```
//!
//! The log may write earlier than the buffer requires. A segment is deleted as soon as a
//! newer one is full, as a database does after it has flushed its tables. After opening, a
//! key is therefore found again only where all keys fit into one segment.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use value_log::{SegmentKind, Sequence};

use super::embedded::{Failure, Session};
use super::log::ValueLog;

/// Appended bytes between two searches for full segments.
const LOOK_BYTES: u64 = 1 << 20;
/// Bytes that BanyanDB counts for the timestamp of each point.
const TIME_BYTES: usize = 8;

pub struct GatheringSession<'a> {
    log: &'a ValueLog,
    buffer_bytes: u64,
    filled_bytes: u64,
    /// Last frame of the buffer that is being written.
    writing: Option<Sequence>,
    looked_bytes: u64,
}

impl<'a> GatheringSession<'a> {
    pub fn new(log: &'a ValueLog, buffer_bytes: u64) -> GatheringSession<'a> {
        GatheringSession {
            log,
            buffer_bytes,
            filled_bytes: 0,
            writing: None,
            looked_bytes: 0,
        }
    }

    fn buffer_is_full(&mut self, last: Sequence) -> Result<(), Failure> {
        if let Some(before) = self.writing.replace(last) {
            self.log.log.wait_durable(before)?;
        }
        self.looked_bytes += std::mem::take(&mut self.filled_bytes);
        match self.looked_bytes >= LOOK_BYTES {
            true => self.delete_full_segments(),
            false => Ok(()),
        }
    }

    /// Deletes all full segments except the newest.
    fn delete_full_segments(&mut self) -> Result<(), Failure> {
        self.looked_bytes = 0;
        let deletion = &self.log.deletion;
        let _one_at_a_time = deletion.lock().unwrap_or_else(PoisonError::into_inner);
        let segments = self.log.log.segments();
        let full = segments
            .iter()
            .filter(|segment| segment.sealed && segment.kind == SegmentKind::Log);
        let mut full: Vec<u32> = full.map(|segment| segment.id).collect();
        full.sort_unstable();
        full.pop();
        Ok(self.log.log.release(&full)?)
    }
}

impl Session for GatheringSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.log.has_unindexed.store(true, Ordering::Relaxed);
        let appended = self.log.append_only(key, value)?;
        self.filled_bytes += (key.len() + TIME_BYTES + value.len()) as u64;
        match self.filled_bytes > self.buffer_bytes {
            true => self.buffer_is_full(appended.sequence),
            false => Ok(()),
        }
    }

    /// Fails once something was put: such records are indexed only when the log is opened
    /// again.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        match self.log.has_unindexed.load(Ordering::Relaxed) {
            true => Err(
                "target log keeps no index while durability.buffer_bytes is set: mix.put must be 1"
                    .into(),
            ),
            false => self.log.read(key, value),
        }
    }
}
