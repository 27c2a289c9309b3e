//! redb: a tree of pages that are never overwritten, one writer at a time.

use std::path::Path;

use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, TableError};

use crate::CACHE_BYTES;

pub const OFFER: Offer = Offer {
    name: "redb",
    version: "4.5.0",
    about: "redb: a transaction for each put, Durability::Immediate; cache of 256 MiB",
    // Without `Immediate` a commit does not survive the process.
    promises: &[DurabilityLevel::Durable],
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

struct Redb {
    database: Database,
    durability: Durability,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let mut with = Database::builder();
    with.set_cache_size(CACHE_BYTES);
    let database = with.create(directory.join("redb")).map_err(Failure::of)?;
    let redb = Redb {
        database,
        durability: match options.durability {
            DurabilityLevel::Durable | DurabilityLevel::Os => Durability::Immediate,
            DurabilityLevel::None => Durability::None,
        },
    };
    // Readers fail if the table does not exist.
    redb.write(&[], Durability::Immediate)?;
    Ok(Box::new(redb))
}

impl Redb {
    fn write(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> Result<(), Failure> {
        let mut transaction = self.database.begin_write().map_err(Failure::of)?;
        transaction
            .set_durability(durability)
            .map_err(Failure::of)?;
        {
            let mut table = transaction.open_table(PAIRS).map_err(Failure::of)?;
            for (key, value) in pairs {
                table.insert(*key, *value).map_err(Failure::of)?;
            }
        }
        transaction.commit().map_err(Failure::of)
    }

    fn table(&self) -> Result<redb::ReadOnlyTable<&'static [u8], &'static [u8]>, Failure> {
        let transaction = self.database.begin_read().map_err(Failure::of)?;
        let table: Result<_, TableError> = transaction.open_table(PAIRS);
        table.map_err(Failure::of)
    }
}

impl Embedded for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(RedbSession { redb: self }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        // A durable commit also makes the earlier commits durable.
        self.write(&[], Durability::Immediate)?;
        self.database.close().map_err(Failure::of)
    }
}

struct RedbSession<'a> {
    redb: &'a Redb,
}

impl Session for RedbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.redb.write(&[(key, value)], self.redb.durability)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.redb.table()?.get(key).map_err(Failure::of)?;
        if let Some(found) = &found {
            value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let table = self.redb.table()?;
        let mut seen = Seen::default();
        let pairs = table.range(from..).map_err(Failure::of)?;
        for pair in pairs.take(super::count(limit)) {
            let (key, value) = pair.map_err(Failure::of)?;
            seen.keys += 1;
            seen.bytes += (key.value().len() + value.value().len()) as u64;
        }
        Ok(seen)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let pairs: Vec<(&[u8], &[u8])> = entries
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        self.redb.write(&pairs, self.redb.durability)
    }
}
