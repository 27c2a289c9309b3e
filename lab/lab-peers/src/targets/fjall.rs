//! fjall: a log-structured tree behind a journal.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

use crate::CACHE_BYTES;

pub const OFFER: Offer = Offer::store(
    "fjall",
    "3.1.13",
    "fjall: persist(SyncData) after each put when promised; cache of 256 MiB",
    open,
);

struct Fjall {
    database: Database,
    pairs: Keyspace,
    durable: bool,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let with = Database::builder(directory).cache_size(CACHE_BYTES as u64);
    let database = with.open()?;
    Ok(Box::new(Fjall {
        pairs: database.keyspace("pairs", KeyspaceCreateOptions::default)?,
        database,
        durable: options.durability == DurabilityLevel::Durable,
    }))
}

impl Fjall {
    /// Makes earlier puts durable if the level requires it. `SyncData` (fdatasync) suffices
    /// on all file systems of Linux, and the other targets use it too.
    fn promise(&self) -> Result<(), Failure> {
        if self.durable {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Embedded for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }

    fn compact(&self) -> Result<(), Failure> {
        Ok(self.pairs.major_compact()?)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

impl Session for &Fjall {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.pairs.insert(key, value)?;
        self.promise()
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.pairs.get(key)?;
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let pairs = self.pairs.range(from..).map(|pair| pair.into_inner());
        Seen::read_all(pairs, limit, |(key, value)| (key, value))
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let mut batch = self.database.batch();
        for (key, value) in entries {
            batch.insert(&self.pairs, key.as_slice(), value.as_slice());
        }
        batch.commit()?;
        self.promise()
    }
}
