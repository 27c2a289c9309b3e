//! An index from keys to places of values, for targets that have none of their own.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock};

/// Number of shards, large enough that threads rarely contend for one.
const SHARDS: usize = 256;

type Shard<Place> = RwLock<HashMap<Box<[u8]>, Place>>;

/// A hash table in shards, each with its own lock.
#[derive(Debug)]
pub struct Index<Place> {
    hasher: RandomState,
    shards: Vec<Shard<Place>>,
}

impl<Place: Copy> Index<Place> {
    pub fn new() -> Index<Place> {
        Index {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, key: &[u8]) -> &Shard<Place> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The place of a key; `None` for an unknown key.
    pub fn get(&self, key: &[u8]) -> Option<Place> {
        let shard = self
            .shard(key)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        shard.get(key).copied()
    }

    /// Replaces the place of a key by `next` of the present one, under the shard's lock;
    /// returns the new place.
    pub fn change(&self, key: &[u8], next: impl FnOnce(Option<Place>) -> Place) -> Place {
        let mut shard = self
            .shard(key)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let place = next(shard.get(key).copied());
        match shard.get_mut(key) {
            Some(known) => *known = place,
            None => {
                shard.insert(key.into(), place);
            }
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_and_changed() {
        let index = Index::new();
        assert_eq!(index.get(b"a"), None);
        assert_eq!(index.change(b"a", |known| known.unwrap_or(7)), 7);
        assert_eq!(index.change(b"a", |known| known.unwrap_or(0) + 1), 8);
        assert_eq!(index.get(b"a"), Some(8));
    }
}
