//! Target `store`: Inkstone embedded (crate `inkstone`), with etcd's revisions.

use std::path::Path;

use bytes::Bytes;
use inkstone::{Batch, Durability, Options, Store};

use super::embedded::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer {
    name: "store",
    version: env!("CARGO_PKG_VERSION"),
    about: "Inkstone embedded, with etcd's revisions: crate inkstone, Store",
    promises: &[DurabilityLevel::Durable, DurabilityLevel::Os],
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

/// Size at which a batch of a preload is written, well below the limit of one command.
const BATCH_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Embedding {
    store: Store,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let durability = match options.durability {
        DurabilityLevel::Durable => Durability::Durable,
        DurabilityLevel::Os | DurabilityLevel::None => Durability::Os,
    };
    let store = Options::new(directory).durability(durability).open();
    Ok(Box::new(Embedding {
        store: store.map_err(Failure::of)?,
    }))
}

impl Embedded for Embedding {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(StoreSession {
            store: self.store.clone(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        drop(self);
        Ok(())
    }
}

struct StoreSession {
    store: Store,
}

impl Session for StoreSession {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let put = self
            .store
            .put(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        put.map(drop).map_err(Failure::of)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        match self.store.get(key).map_err(Failure::of)? {
            Some(found) => {
                value.extend_from_slice(&found.value);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let mut query = self.store.range(from..);
        if limit > 0 {
            query = query.limit(limit as usize);
        }
        let mut seen = Seen::default();
        for entry in query.iter() {
            let entry = entry.map_err(Failure::of)?;
            seen.keys += 1;
            seen.bytes += (entry.key.len() + entry.value.len()) as u64;
        }
        Ok(seen)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let mut batch = Batch::new();
        let mut bytes = 0;
        for (key, value) in entries {
            batch = batch.put(key.clone(), value.clone());
            bytes += key.len() + value.len();
            if bytes >= BATCH_BYTES {
                let full = std::mem::take(&mut batch);
                self.store.write_batch(full).map_err(Failure::of)?;
                bytes = 0;
            }
        }
        self.store.write_batch(batch).map(drop).map_err(Failure::of)
    }
}
