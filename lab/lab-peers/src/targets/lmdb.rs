//! LMDB by heed: a tree of pages in one mapped file, one writer at a time.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use lab::targets::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

use super::ALL_LEVELS;

pub const OFFER: Offer = Offer {
    name: "lmdb",
    version: "",
    about: "LMDB: a transaction for each put, flushed as promised",
    promises: ALL_LEVELS,
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

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
    let environment = unsafe { with.open(directory) }.map_err(Failure::of)?;
    let transaction = environment.write_txn().map_err(Failure::of)?;
    let database = environment
        .create_databases_and_commit(transaction, |opener, transaction| {
            let database = opener.create_database::<Bytes, Bytes>(transaction, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(database))
        })
        .map_err(Failure::of)?
        .unwrap_commit();
    Ok(Box::new(Lmdb {
        environment,
        database,
    }))
}

impl Embedded for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(LmdbSession { lmdb: self }))
    }

    fn version(&self) -> Option<String> {
        let version = heed::lmdb_version();
        Some(format!(
            "{}.{}.{}",
            version.major, version.minor, version.patch
        ))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.environment.force_sync().map_err(Failure::of)?;
        self.environment.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbSession<'a> {
    lmdb: &'a Lmdb,
}

impl Session for LmdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut transaction = self.lmdb.environment.write_txn().map_err(Failure::of)?;
        let put = self.lmdb.database.put(&mut transaction, key, value);
        put.map_err(Failure::of)?;
        transaction.commit().map_err(Failure::of)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let transaction = self.lmdb.environment.read_txn().map_err(Failure::of)?;
        let found = self.lmdb.database.get(&transaction, key);
        let found = found.map_err(Failure::of)?;
        value.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let transaction = self.lmdb.environment.read_txn().map_err(Failure::of)?;
        // LMDB does not accept an empty key.
        let from = match from {
            [] => Bound::Unbounded,
            from => Bound::Included(from),
        };
        let from = (from, Bound::Unbounded);
        let pairs = self.lmdb.database.range(&transaction, &from);
        let mut seen = Seen::default();
        for pair in pairs.map_err(Failure::of)?.take(super::count(limit)) {
            let (key, value) = pair.map_err(Failure::of)?;
            seen.keys += 1;
            seen.bytes += (key.len() + value.len()) as u64;
        }
        Ok(seen)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let mut transaction = self.lmdb.environment.write_txn().map_err(Failure::of)?;
        for (key, value) in entries {
            let put = self.lmdb.database.put(&mut transaction, key, value);
            put.map_err(Failure::of)?;
        }
        transaction.commit().map_err(Failure::of)
    }
}
