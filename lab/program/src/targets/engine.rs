//! Target `engine`: Inkstone's engine as an ordered map (crate `ordered-map`), for
//! comparison with LevelDB and the like.

use std::path::Path;

use ordered_map::{Batch, Durability, Map, Options};

use super::embedded::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer {
    name: "engine",
    version: env!("CARGO_PKG_VERSION"),
    about: "Inkstone's engine alone: crate ordered-map, Map",
    promises: &[DurabilityLevel::Durable, DurabilityLevel::Os],
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

/// Size at which a batch of a preload is written, well below the limit of a batch.
const BATCH_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Engine {
    map: Map,
}

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let durability = match options.durability {
        DurabilityLevel::Durable => Durability::Durable,
        DurabilityLevel::Os | DurabilityLevel::None => Durability::Os,
    };
    let map = Options::new(directory).durability(durability).open();
    Ok(Box::new(Engine {
        map: map.map_err(Failure::of)?,
    }))
}

impl Embedded for Engine {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(EngineSession { map: &self.map }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        drop(self);
        Ok(())
    }
}

struct EngineSession<'a> {
    map: &'a Map,
}

impl Session for EngineSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.map.put(key, value).map_err(Failure::of)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        match self.map.get(key).map_err(Failure::of)? {
            Some(found) => {
                value.extend_from_slice(&found);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let pairs = self.map.range(from..);
        let limit = match limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let mut seen = Seen::default();
        for pair in pairs.take(limit) {
            let (key, value) = pair.map_err(Failure::of)?;
            seen.keys += 1;
            seen.bytes += (key.len() + value.len()) as u64;
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
                self.map.write(full).map_err(Failure::of)?;
                bytes = 0;
            }
        }
        self.map.write(batch).map(drop).map_err(Failure::of)
    }
}
