//! The value log alone: what a put costs before there is an index or a state
//! machine. Where each key is, is kept in memory beside it.

use std::path::Path;
use std::sync::Arc;

use environment::real::RealDisk;
use value_log::{Durability, Log, Options, Position, Record};

use super::embedded::{Embedded, Failure, Offer, OpenOptions, Seen, Session, no_ranges};
use super::index::Index;
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer {
    name: "log",
    version: env!("CARGO_PKG_VERSION"),
    about: "the value log alone, without index or revisions",
    promises: &[DurabilityLevel::Durable, DurabilityLevel::Os],
    has_ranges: false,
    keeps_data: true,
    open,
};

const KIND: u8 = 1;
const KEY_LENGTH_BYTES: usize = 4;

/// Where a value is: its record, and the record's payload.
#[derive(Clone, Copy, Debug)]
struct Place {
    position: Position,
    payload_bytes: u32,
}

struct ValueLog {
    log: Log,
    index: Index<Place>,
    durable: bool,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let index = Index::new();
    let durability = match options.durability {
        DurabilityLevel::Durable => Durability::Durable,
        DurabilityLevel::Os | DurabilityLevel::None => Durability::Os,
    };
    let log_options = Options {
        durability,
        ..Options::default()
    };
    let (log, _) = Log::open(
        Arc::new(RealDisk),
        directory,
        log_options,
        None,
        &mut |group| {
            for (position, _, record) in &group.records {
                let place = Place {
                    position: *position,
                    payload_bytes: record.len() as u32,
                };
                if let Some(key) = key_of(record) {
                    index.change(key, |_| place);
                }
            }
            Ok(())
        },
    )
    .map_err(Failure::of)?;
    Ok(Box::new(ValueLog {
        log,
        index,
        durable: options.durability == DurabilityLevel::Durable,
    }))
}

fn key_of(payload: &[u8]) -> Option<&[u8]> {
    let length = payload.get(..KEY_LENGTH_BYTES)?.try_into().ok()?;
    payload
        .get(KEY_LENGTH_BYTES..)?
        .get(..u32::from_le_bytes(length) as usize)
}

impl ValueLog {
    fn append(&self, key: &[u8], value: &[u8]) -> Result<value_log::Sequence, Failure> {
        let length = (key.len() as u32).to_le_bytes();
        let record = Record {
            kind: KIND,
            parts: &[&length, key, value],
        };
        let appended = self.log.append(&[record]).map_err(Failure::of)?;
        let place = Place {
            position: appended.positions[0],
            payload_bytes: (length.len() + key.len() + value.len()) as u32,
        };
        // Two writers of one key: the one further on in the log is the newer.
        self.index.change(key, |known| match known {
            Some(known) if known.position > place.position => known,
            _ => place,
        });
        Ok(appended.sequence)
    }
}

impl Embedded for ValueLog {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(LogSession { log: self }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.log.close().map_err(Failure::of)
    }
}

struct LogSession<'a> {
    log: &'a ValueLog,
}

impl Session for LogSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let sequence = self.log.append(key, value)?;
        match self.log.durable {
            true => self.log.log.wait_durable(sequence).map_err(Failure::of),
            false => Ok(()),
        }
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let Some(place) = self.log.index.get(key) else {
            return Ok(false);
        };
        let hint = Log::record_bytes(place.payload_bytes as usize);
        let record = match self.log.log.read(place.position, hint) {
            // Not written yet: it can be read once it is.
            Err(value_log::Error::NotFound { .. }) => {
                let appended = self.log.log.status().appended;
                self.log.log.wait_durable(appended).map_err(Failure::of)?;
                self.log.log.read(place.position, hint)
            }
            read => read,
        };
        let record = record.map_err(Failure::of)?;
        value.extend_from_slice(&record.payload[KEY_LENGTH_BYTES + key.len()..]);
        Ok(true)
    }

    fn range(&mut self, _: &[u8], _: u64) -> Result<Seen, Failure> {
        Err(no_ranges(OFFER.name))
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let mut last = None;
        for (key, value) in entries {
            last = Some(self.log.append(key, value)?);
        }
        match last {
            Some(sequence) => self.log.log.wait_durable(sequence).map_err(Failure::of),
            None => Ok(()),
        }
    }
}
