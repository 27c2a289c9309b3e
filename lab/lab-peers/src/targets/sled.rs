//! sled: a tree over a log-structured store of page fragments.

use std::path::Path;

use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

use super::ALL_LEVELS;
use crate::CACHE_BYTES;

pub const OFFER: Offer = Offer {
    name: "sled",
    version: "0.34.7",
    about: "sled: flush() after each put when anything is promised, which flushes no device; cache of 256 MiB",
    promises: ALL_LEVELS,
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

struct Sled {
    tree: sled::Db,
    /// Whether each put is flushed. Otherwise a put stays in the process for up to half a
    /// second.
    flushes: bool,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let with = sled::Config::new()
        .path(directory)
        .cache_capacity(CACHE_BYTES as u64);
    Ok(Box::new(Sled {
        tree: with.open().map_err(Failure::of)?,
        flushes: options.durability != DurabilityLevel::None,
    }))
}

impl Sled {
    fn promise(&self) -> Result<(), Failure> {
        match self.flushes {
            true => self.tree.flush().map(drop).map_err(Failure::of),
            false => Ok(()),
        }
    }
}

impl Embedded for Sled {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(SledSession { sled: self }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.tree.flush().map(drop).map_err(Failure::of)
    }
}

struct SledSession<'a> {
    sled: &'a Sled,
}

impl Session for SledSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.sled.tree.insert(key, value).map_err(Failure::of)?;
        self.sled.promise()
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.sled.tree.get(key).map_err(Failure::of)?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        for pair in self.sled.tree.range(from..).take(super::count(limit)) {
            let (key, value) = pair.map_err(Failure::of)?;
            seen.keys += 1;
            seen.bytes += (key.len() + value.len()) as u64;
        }
        Ok(seen)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        for (key, value) in entries {
            let put = self.sled.tree.insert(key.as_slice(), value.as_slice());
            put.map_err(Failure::of)?;
        }
        self.sled.promise()
    }
}
