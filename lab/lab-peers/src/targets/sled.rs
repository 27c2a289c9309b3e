//! sled: a tree over a log-structured store of page fragments.

use std::path::Path;

use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

use crate::CACHE_BYTES;

pub const OFFER: Offer = Offer::store(
    "sled",
    "0.34.7",
    "sled: flush() after each put when anything is promised, which flushes no device; cache of 256 MiB",
    open,
);

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
        tree: with.open()?,
        flushes: options.durability != DurabilityLevel::None,
    }))
}

impl Sled {
    fn promise(&self) -> Result<(), Failure> {
        if self.flushes {
            self.tree.flush()?;
        }
        Ok(())
    }
}

impl Embedded for Sled {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.tree.flush().map(drop)?)
    }
}

impl Session for &Sled {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.tree.insert(key, value)?;
        self.promise()
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.tree.get(key)?;
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let pairs = self.tree.range(from..);
        Seen::read_all(pairs, limit, |(key, value)| (key, value))
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        for (key, value) in entries {
            self.tree.insert(key.as_slice(), value.as_slice())?;
        }
        self.promise()
    }
}
