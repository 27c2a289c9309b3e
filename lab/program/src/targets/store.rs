//! Target `store`: Inkstone embedded (crate `inkstone`), with etcd's revisions.

use bytes::Bytes;
use inkstone::{Durability, Options, Store, WriteBatch};

use super::embedded::{Embedded, Failure, Offer, Seen, Session};
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer::store(
    "store",
    env!("CARGO_PKG_VERSION"),
    "Inkstone embedded, with etcd's revisions: crate inkstone, Store",
    |directory, options| {
        let durability = match options.durability {
            DurabilityLevel::Durable => Durability::Durable,
            DurabilityLevel::Os | DurabilityLevel::None => Durability::Os,
        };
        Ok(Box::new(
            Options::new(directory).durability(durability).open()?,
        ))
    },
);

impl Embedded for Store {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }
}

impl Session for &Store {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        Ok(Store::put(self, key, value).map(drop)?)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = Store::get(self, key)?;
        value.extend_from_slice(found.as_ref().map_or(&[], |found| &found.value));
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let mut query = Store::range(self, from..);
        if limit > 0 {
            query = query.limit(limit as usize);
        }
        Seen::read_all(query.iter(), limit, |entry| (&entry.key, &entry.value))
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let pairs = entries.iter().cloned();
        let batch = pairs.fold(WriteBatch::new(), |batch, (key, value)| {
            batch.put(key, value)
        });
        Ok(self.write_batch(batch).map(drop)?)
    }
}
