//! redb: a tree of pages that are never overwritten, one writer at a time.

use std::path::Path;

use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::CACHE_BYTES;

pub const OFFER: Offer = Offer {
    // Without `Immediate` a commit does not survive the process.
    promises: &[DurabilityLevel::Durable],
    ..Offer::store(
        "redb",
        "4.5.0",
        "redb: a transaction for each put, Durability::Immediate; cache of 256 MiB",
        open,
    )
};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

struct Redb {
    database: Database,
    durability: Durability,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let mut with = Database::builder();
    with.set_cache_size(CACHE_BYTES);
    let database = with.create(directory.join("redb"))?;
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
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(durability)?;
        {
            let mut table = transaction.open_table(PAIRS)?;
            for (key, value) in pairs {
                table.insert(*key, *value)?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn table(&self) -> Result<redb::ReadOnlyTable<&'static [u8], &'static [u8]>, Failure> {
        Ok(self.database.begin_read()?.open_table(PAIRS)?)
    }
}

impl Embedded for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        // A durable commit also makes the earlier commits durable.
        self.write(&[], Durability::Immediate)?;
        Ok(self.database.close()?)
    }
}

impl Session for &Redb {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.write(&[(key, value)], self.durability)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.table()?.get(key)?;
        if let Some(found) = &found {
            value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let table = self.table()?;
        let pairs = table.range(from..)?;
        Seen::read_all(pairs, limit, |(key, value)| (key.value(), value.value()))
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let pairs: Vec<(&[u8], &[u8])> = entries
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        self.write(&pairs, self.durability)
    }
}
