//! Target `engine`: Inkstone's engine as an ordered map (crate `ordered-map`), for
//! comparison with LevelDB and the like.

use std::ops::ControlFlow;
use std::path::Path;

use ordered_map::{Compression, Durability, Map, Options, WriteBatch};

use super::embedded::{Embedded, Failure, Offer, OpenOptions, Seen, Session};
use crate::workload::DurabilityLevel;

pub const OFFER: Offer = Offer::store(
    "engine",
    env!("CARGO_PKG_VERSION"),
    "Inkstone's engine alone: crate ordered-map, Map",
    |directory, options| open(directory, options, |map| map),
);

pub const UNCOMPRESSED: Offer = Offer {
    name: "engine-uncompressed",
    about: "Inkstone's engine alone, with values as they are",
    open: |directory, options| open(directory, options, |map| map.compression(Compression::None)),
    ..OFFER
};

pub const TIGHT: Offer = Offer {
    name: "engine-tight",
    about: "Inkstone's engine alone, with garbage up to 40 % of the live bytes",
    open: |directory, options| open(directory, options, |map| map.garbage_percent_max(40)),
    ..OFFER
};

fn open(
    directory: &Path,
    options: &OpenOptions,
    choose: impl FnOnce(Options) -> Options,
) -> Result<Box<dyn Embedded>, Failure> {
    let durability = match options.durability {
        DurabilityLevel::Durable => Durability::Durable,
        DurabilityLevel::Os | DurabilityLevel::None => Durability::Os,
    };
    let options = Options::new(directory).durability(durability);
    Ok(Box::new(choose(options).open()?))
}

impl Embedded for Map {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }

    fn compact(&self) -> Result<(), Failure> {
        Ok(Map::compact(self)?)
    }
}

impl Session for &Map {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(Map::put(self, key, value)?)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = Map::get(self, key)?;
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        Map::range(self, from..).visit(|key, value| match seen.read(key, value, limit) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })?;
        Ok(seen)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let pairs = entries.iter().cloned();
        let batch = pairs.fold(WriteBatch::new(), |batch, (key, value)| {
            batch.put(key, value)
        });
        Ok(self.write(batch).map(drop)?)
    }
}
