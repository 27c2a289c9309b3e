//! Target `append`: a plain file that is written sequentially. It is an upper bound for a
//! log, because it has no frames, no checksums and no way to read it.
//!
//! ```text
//!   │ zeros ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ │   two segments long, used as a ring
//!     ▲ one pwrite for each put, or for each full buffer; RWF_DSYNC when durable
//! ```

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::embedded::{Embedded, Failure, Offer, OpenOptions, Session};
use super::plain;
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer {
    has_ranges: false,
    keeps_data: false,
    gathers: true,
    ..Offer::store(
        "append",
        "",
        "a pre-written file, written on and on: what a log can be at best",
        open,
    )
};

const SEGMENT_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
const RING_UNIT_BYTES: u64 = 1 << 20;

struct Appending {
    file: File,
    ring_bytes: u64,
    /// Bytes assigned to writes so far.
    end: AtomicU64,
    buffer_bytes: u64,
    durable: bool,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let path = directory.join("ring");
    let segment_bytes = match options.segment_bytes {
        0 => SEGMENT_BYTES,
        bytes => bytes,
    };
    let longest = options.buffer_bytes + options.entry_bytes_max;
    if segment_bytes > SEGMENT_BYTES_MAX || longest > segment_bytes {
        return Err(format!(
            "target append: durability.segment_bytes is {segment_bytes}: from {longest} (a buffer \
             and an entry) to {SEGMENT_BYTES_MAX}"
        )
        .into());
    }
    let ring_bytes = (2 * segment_bytes).next_multiple_of(RING_UNIT_BYTES);
    let file = plain::zeroed(&path, ring_bytes);
    Ok(Box::new(Appending {
        file: file.map_err(|error| format!("{}: {error}", path.display()))?,
        ring_bytes,
        end: AtomicU64::new(0),
        buffer_bytes: options.buffer_bytes,
        durable: options.durability == DurabilityLevel::Durable,
    }))
}

impl Appending {
    /// Reserves `bytes` contiguous bytes of the ring; returns their offset.
    fn place(&self, bytes: u64) -> u64 {
        loop {
            let offset = self.end.fetch_add(bytes, Ordering::Relaxed) % self.ring_bytes;
            if offset + bytes <= self.ring_bytes {
                return offset;
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let offset = self.place(bytes.len() as u64);
        let written = plain::write_at(&self.file, bytes, offset, self.durable);
        Ok(written.map_err(|error| format!("append: write: {error}"))?)
    }
}

impl Embedded for Appending {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(AppendingSession {
            to: self,
            buffer: Vec::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.file.sync_all()?)
    }
}

struct AppendingSession<'a> {
    to: &'a Appending,
    buffer: Vec<u8>,
}

impl Session for AppendingSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(value);
        if self.buffer.len() as u64 > self.to.buffer_bytes {
            self.to.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn get(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<bool, Failure> {
        Err("target append cannot be read: mix.put must be 1".into())
    }

    fn load(&mut self, _: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        Err("target append keeps no keys: load.preload must be false".into())
    }
}
