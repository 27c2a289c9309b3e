//! Target `file`: a plain file of slots, which shows the speed of device and file system
//! without an engine.
//!
//! ```text
//!   │ slot of the first key │ slot of the second │ ...    each a multiple of 512 bytes
//!     key bytes u32 │ value bytes u32 │ key │ value │ 0 ...
//! ```
//!
//! The file is filled with zeros first, so that a durable overwrite is one write and one
//! flush. An overwrite is not atomic: the target is a bound for comparison, not a store.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::embedded::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use super::index::Index;
use super::plain;
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer {
    grows: false,
    ..Offer::store(
        "file",
        "",
        "a pre-written file, one pwrite for each put: the device's own limit",
        open,
    )
};

const HEADER_BYTES: usize = 8;
const SLOT_UNIT_BYTES: u64 = 512;
/// Greatest size of the file.
const FILE_BYTES_MAX: u64 = 64 << 30;
/// Size of one read of a range.
const RANGE_BYTES: u64 = 1 << 20;
const TORN: &str = "file: a slot is torn";

#[derive(Debug)]
struct PlainFile {
    file: File,
    slot_bytes: u64,
    slots: u64,
    used: AtomicU64,
    index: Index<u64>,
    durable: bool,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let path = directory.join("slots");
    let slot_bytes =
        (HEADER_BYTES as u64 + options.entry_bytes_max).next_multiple_of(SLOT_UNIT_BYTES);
    let bytes = slot_bytes.saturating_mul(options.keys);
    if bytes > FILE_BYTES_MAX {
        return Err(format!(
            "target file would need a file of {bytes} bytes: at most {FILE_BYTES_MAX}; use fewer keys"
        )
        .into());
    }
    let context = |error: std::io::Error| format!("{}: {error}", path.display());
    let existed = path.exists();
    let file = match existed {
        true => File::options().read(true).write(true).open(&path),
        false => plain::zeroed(&path, bytes),
    };
    let mut plain = PlainFile {
        slot_bytes,
        slots: options.keys,
        used: AtomicU64::new(0),
        index: Index::new(),
        durable: options.durability == DurabilityLevel::Durable,
        file: file.map_err(context)?,
    };
    if existed {
        plain.read_back().map_err(context)?;
    }
    Ok(Box::new(plain))
}

impl PlainFile {
    fn read_back(&mut self) -> std::io::Result<()> {
        let mut slot = vec![0; self.slot_bytes as usize];
        for number in 0..self.slots {
            self.file
                .read_exact_at(&mut slot, number * self.slot_bytes)?;
            let (key_bytes, value_bytes) = lengths(&slot);
            if key_bytes == 0 || HEADER_BYTES + key_bytes + value_bytes > slot.len() {
                break;
            }
            self.index
                .change(&slot[HEADER_BYTES..][..key_bytes], |_| number);
            self.used = AtomicU64::new(number + 1);
        }
        Ok(())
    }
}

fn lengths(slot: &[u8]) -> (usize, usize) {
    let word =
        |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("four bytes")) as usize;
    (word(0), word(4))
}

impl Embedded for PlainFile {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(FileSession {
            plain: self,
            slot: Vec::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.file.sync_all()?)
    }
}

struct FileSession<'a> {
    plain: &'a PlainFile,
    slot: Vec<u8>,
}

impl FileSession<'_> {
    fn write(&mut self, key: &[u8], value: &[u8], durable: bool) -> Result<(), Failure> {
        let plain = self.plain;
        let number = plain.index.change(key, |known| {
            known.unwrap_or_else(|| plain.used.fetch_add(1, Ordering::Relaxed))
        });
        if number >= plain.slots {
            return Err(format!("file: more than {} keys", plain.slots).into());
        }
        self.slot.clear();
        for length in [key.len(), value.len()] {
            self.slot.extend_from_slice(&(length as u32).to_le_bytes());
        }
        self.slot.extend_from_slice(key);
        self.slot.extend_from_slice(value);
        if self.slot.len() as u64 > plain.slot_bytes {
            return Err("file: the entry is longer than its slot".into());
        }
        let offset = number * plain.slot_bytes;
        let written = plain::write_at(&plain.file, &self.slot, offset, durable);
        Ok(written.map_err(|error| format!("file: write: {error}"))?)
    }
}

impl Session for FileSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.write(key, value, self.plain.durable)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let Some(number) = self.plain.index.get(key) else {
            return Ok(false);
        };
        self.slot.resize(self.plain.slot_bytes as usize, 0);
        let offset = number * self.plain.slot_bytes;
        self.plain.file.read_exact_at(&mut self.slot, offset)?;
        let (key_bytes, value_bytes) = lengths(&self.slot);
        let found = self
            .slot
            .get(HEADER_BYTES + key_bytes..HEADER_BYTES + key_bytes + value_bytes);
        value.extend_from_slice(found.ok_or(TORN)?);
        Ok(true)
    }

    /// Reads slots in the order of the file, which is that of the preload: the cost of
    /// sequential reads on the device.
    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let plain = self.plain;
        let first = plain.index.get(from).unwrap_or(0);
        let used = plain.used.load(Ordering::Relaxed).min(plain.slots);
        let all = used.saturating_sub(first);
        let count = if limit == 0 { all } else { limit.min(all) };
        let mut seen = Seen::default();
        let at_once = (RANGE_BYTES / plain.slot_bytes).max(1);
        let mut next = first;
        while next < first + count {
            let now = at_once.min(first + count - next);
            self.slot.resize((now * plain.slot_bytes) as usize, 0);
            let offset = next * plain.slot_bytes;
            plain.file.read_exact_at(&mut self.slot, offset)?;
            for slot in self.slot.chunks_exact(plain.slot_bytes as usize) {
                let (key_bytes, value_bytes) = lengths(slot);
                let parts = slot[HEADER_BYTES..].split_at_checked(key_bytes);
                let (key, rest) = parts.ok_or(TORN)?;
                let value = rest.get(..value_bytes).ok_or(TORN)?;
                seen.read(key, value, limit);
            }
            next += now;
        }
        Ok(seen)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        entries
            .iter()
            .try_for_each(|(key, value)| self.write(key, value, false))?;
        Ok(self.plain.file.sync_data()?)
    }
}
