//! An index from keys to places of values, for targets that have none of their own.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock};

/// Number of shards, large enough that threads rarely contend for one.
const SHARDS: usize = 256;

type Shard<ValuePosition> = RwLock<HashMap<Box<[u8]>, ValuePosition>>;

/// A hash table in shards, each with its own lock.
#[derive(Debug)]
pub struct Index<ValuePosition> {
    hasher: RandomState,
    shards: Vec<Shard<ValuePosition>>,
}

impl<ValuePosition: Copy> Index<ValuePosition> {
    pub fn new() -> Index<ValuePosition> {
        Index {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, key: &[u8]) -> &Shard<ValuePosition> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The place of a key; `None` for an unknown key.
    pub fn get(&self, key: &[u8]) -> Option<ValuePosition> {
        let shard = self
            .shard(key)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        shard.get(key).copied()
    }

    /// Replaces the place of a key by `next` of the present one, under the shard's lock;
    /// returns the new place.
    pub fn change(
        &self,
        key: &[u8],
        next: impl FnOnce(Option<ValuePosition>) -> ValuePosition,
    ) -> ValuePosition {
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
