//! LMDB by heed: a tree of pages in one mapped file, one writer at a time.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

pub const OFFER: Offer = Offer::store(
    "lmdb",
    "",
    "LMDB: a transaction for each put, flushed as promised",
    open,
);

/// Reserved address space; the file grows only with its contents.
const MAP_BYTES: usize = 64 << 30;
const READERS_MAX: u32 = 4096;

struct Lmdb {
    environment: Env,
    database: Database<'static, Bytes, Bytes>,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let mut with = EnvOpenOptions::new();
    with.map_size(MAP_BYTES).max_readers(READERS_MAX);
    if options.durability != DurabilityLevel::Durable {
        // SAFETY: with this flag a loss of power may destroy the data, and nothing
        // else may; the level does not promise to survive it.
        unsafe {
            with.flags(EnvFlags::NO_SYNC);
        }
    }
    // SAFETY: the directory belongs to the run: no other process changes the file.
    let environment = unsafe { with.open(directory) }?;
    let transaction = environment.write_txn()?;
    let database = environment
        .create_databases_and_commit(transaction, |opener, transaction| {
            let database = opener.create_database::<Bytes, Bytes>(transaction, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(database))
        })?
        .unwrap_commit();
    Ok(Box::new(Lmdb {
        environment,
        database,
    }))
}

impl Embedded for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }

    fn version(&self) -> Option<String> {
        let version = heed::lmdb_version();
        Some(format!(
            "{}.{}.{}",
            version.major, version.minor, version.patch
        ))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.environment.force_sync()?;
        self.environment.prepare_for_closing().wait();
        Ok(())
    }
}

impl Session for &Lmdb {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn()?;
        self.database.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let transaction = self.environment.read_txn()?;
        let found = self.database.get(&transaction, key)?;
        value.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let transaction = self.environment.read_txn()?;
        // LMDB does not accept an empty key.
        let from = match from {
            [] => Bound::Unbounded,
            from => Bound::Included(from),
        };
        let from = (from, Bound::Unbounded);
        let pairs = self.database.range(&transaction, &from)?;
        Seen::read_all(pairs, limit, |(key, value)| (key, value))
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn()?;
        for (key, value) in entries {
            self.database.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }
}
