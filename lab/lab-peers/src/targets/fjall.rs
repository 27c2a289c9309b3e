//! fjall: a log-structured tree behind a journal.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

use super::ALL_LEVELS;
use crate::CACHE_BYTES;

pub const OFFER: Offer = Offer {
    name: "fjall",
    version: "3.1.13",
    about: "fjall: persist(SyncData) after each put when promised; cache of 256 MiB",
    promises: ALL_LEVELS,
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

struct Fjall {
    database: Database,
    pairs: Keyspace,
    durable: bool,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let with = Database::builder(directory).cache_size(CACHE_BYTES as u64);
    let database = with.open().map_err(Failure::of)?;
    let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default);
    Ok(Box::new(Fjall {
        pairs: pairs.map_err(Failure::of)?,
        database,
        durable: options.durability == DurabilityLevel::Durable,
    }))
}

impl Fjall {
    /// Makes earlier puts durable if the level requires it. `SyncData` (fdatasync) suffices
    /// on all file systems of Linux, and the other targets use it too.
    fn promise(&self) -> Result<(), Failure> {
        match self.durable {
            true => self
                .database
                .persist(PersistMode::SyncData)
                .map_err(Failure::of),
            false => Ok(()),
        }
    }
}

impl Embedded for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(FjallSession { fjall: self }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.database
            .persist(PersistMode::SyncAll)
            .map_err(Failure::of)
    }
}

struct FjallSession<'a> {
    fjall: &'a Fjall,
}

impl Session for FjallSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.fjall.pairs.insert(key, value).map_err(Failure::of)?;
        self.fjall.promise()
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.fjall.pairs.get(key).map_err(Failure::of)?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        for pair in self.fjall.pairs.range(from..).take(super::count(limit)) {
            let (key, value) = pair.into_inner().map_err(Failure::of)?;
            seen.keys += 1;
            seen.bytes += (key.len() + value.len()) as u64;
        }
        Ok(seen)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let mut batch = self.fjall.database.batch();
        for (key, value) in entries {
            batch.insert(&self.fjall.pairs, key.as_slice(), value.as_slice());
        }
        batch.commit().map_err(Failure::of)?;
        self.fjall.promise()
    }
}
