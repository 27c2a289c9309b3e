//! Target `log`: the value log alone, which shows the cost of a put without index and state
//! machine. The target keeps the places of keys in memory; with a buffer it keeps none, see
//! `gathering.rs`.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use environment::real::RealDisk;
use value_log::{Appended, Durability, Log, Options, Position, Record};

use super::embedded::{Embedded, Failure, Offer, OpenOptions, Session};
use super::gathering::GatheringSession;
use super::index::Index;
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer {
    has_ranges: false,
    gathers: true,
    ..Offer::store(
        "log",
        env!("CARGO_PKG_VERSION"),
        "the value log alone, without index or revisions",
        open,
    )
};

const KIND: u8 = 1;
const KEY_LENGTH_BYTES: usize = 4;
const STOCK_TIME_MAX: Duration = Duration::from_secs(10);
const STOCK_LOOK: Duration = Duration::from_millis(5);

/// ValuePosition of a value: position and payload length of its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValuePosition {
    position: Position,
    payload_bytes: u32,
}

pub(super) struct ValueLog {
    pub(super) log: Log,
    index: Index<ValuePosition>,
    durable: bool,
    buffer_bytes: u64,
    /// Whether a record was put that is not in the index.
    pub(super) has_unindexed: AtomicBool,
    /// Held by the session that deletes segments.
    pub(super) deletion: Mutex<()>,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let index = Index::new();
    let durability = match options.durability {
        DurabilityLevel::Durable => Durability::Durable,
        DurabilityLevel::Os | DurabilityLevel::None => Durability::Os,
    };
    let mut log_options = Options {
        durability,
        ..Options::default()
    };
    if options.segment_bytes > 0 {
        log_options.segment_bytes = options.segment_bytes;
    }
    let spare_segments = log_options.spare_segments;
    let (log, _) = Log::open(
        Arc::new(RealDisk),
        directory,
        log_options,
        None,
        &mut |group| {
            for (position, _, record) in &group.records {
                let place = ValuePosition {
                    position: *position,
                    payload_bytes: record.len() as u32,
                };
                if let Some(key) = key_of(record) {
                    index.change(key, |_| place);
                }
            }
            Ok(())
        },
    )?;
    wait_for_stock(&log, spare_segments)?;
    Ok(Box::new(ValueLog {
        log,
        index,
        durable: options.durability == DurabilityLevel::Durable,
        buffer_bytes: options.buffer_bytes,
        has_unindexed: AtomicBool::new(false),
        deletion: Mutex::new(()),
    }))
}

/// Waits until the log has its spare segments. Filling the first segments with zeros happens
/// once for each log; it is no part of the cost of puts, but would dominate a short run.
fn wait_for_stock(log: &Log, spare_segments: usize) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let status = log.status();
        if let Some(failed) = status.failed {
            return Err(failed.into());
        }
        // On a slow disk the run begins with fewer spare segments; its record shows
        // the cost.
        if status.spare_segments >= spare_segments || begun.elapsed() > STOCK_TIME_MAX {
            return Ok(());
        }
        std::thread::sleep(STOCK_LOOK);
    }
}

fn key_of(payload: &[u8]) -> Option<&[u8]> {
    let length = payload.get(..KEY_LENGTH_BYTES)?.try_into().ok()?;
    payload
        .get(KEY_LENGTH_BYTES..)?
        .get(..u32::from_le_bytes(length) as usize)
}

impl ValueLog {
    pub(super) fn append_only(&self, key: &[u8], value: &[u8]) -> Result<Appended, Failure> {
        let length = (key.len() as u32).to_le_bytes();
        let record = Record {
            kind: KIND,
            parts: &[&length, key, value],
        };
        Ok(self.log.append(&[record])?)
    }

    fn append(&self, key: &[u8], value: &[u8]) -> Result<value_log::Sequence, Failure> {
        let appended = self.append_only(key, value)?;
        let place = ValuePosition {
            position: appended.positions[0],
            payload_bytes: (KEY_LENGTH_BYTES + key.len() + value.len()) as u32,
        };
        // Of two concurrent writes of a key, the one with the greater position is newer.
        self.index.change(key, |known| match known {
            Some(known) if known.position > place.position => known,
            _ => place,
        });
        Ok(appended.sequence)
    }

    pub(super) fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let Some(place) = self.index.get(key) else {
            return Ok(false);
        };
        let hint = Log::record_bytes(place.payload_bytes as usize);
        let read = match self.log.read(place.position, hint) {
            // The record is not written yet; wait until it can be read.
            Err(value_log::Error::NotFound { .. }) => {
                let appended = self.log.status().appended;
                self.log.wait_durable(appended)?;
                self.log.read(place.position, hint)
            }
            read => read,
        };
        value.extend_from_slice(&read?.payload[KEY_LENGTH_BYTES + key.len()..]);
        Ok(true)
    }
}

impl Embedded for ValueLog {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(match self.buffer_bytes {
            0 => Box::new(self),
            bytes => Box::new(GatheringSession::new(self, bytes)),
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.log.close()?)
    }
}

impl Session for &ValueLog {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let sequence = self.append(key, value)?;
        if self.durable {
            self.log.wait_durable(sequence)?;
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        self.read(key, value)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let mut last = None;
        for (key, value) in entries {
            last = Some(self.append(key, value)?);
        }
        if let Some(sequence) = last {
            self.log.wait_durable(sequence)?;
        }
        Ok(())
    }
}
