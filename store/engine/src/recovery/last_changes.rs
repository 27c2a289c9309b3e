//! Changes of replayed batches, for a store that keeps no history: only the last one of a key
//! counts.
//!
//! ```text
//!   batches    b=1 a=2 | b=3 | c=4 a†     in the order of the log
//!   applied    a†   b=3   c=4             in the order of keys, the last change of each
//! ```
//!
//! In the order of the log each change waits for memory that no other one needs. In the order of
//! keys the index is walked from left to right, and a loaded checkpoint has its leaves side by side.

use crate::KeyChange;
use crate::record_pointer::RecordPointer;
use crate::trees::VersionEntry;

/// Changes that are gathered at most, for an index that is much larger than they are.
const CHANGES_MAX: u64 = 1 << 19;
const CHANGES_MIN: u64 = 1 << 10;
/// One change for this number of keys of the index: they take less than a tenth of its memory.
const KEYS_FOR_EACH: u64 = 16;
/// Bytes of their keys, at most; a single long key may exceed it.
const KEY_BYTES_MAX: usize = 32 << 20;

/// Gathered changes that are not in the index yet.
#[derive(Debug, Default)]
pub(super) struct LastChanges {
    /// The keys of all changes, one after the other.
    keys: Vec<u8>,
    changes: Vec<GatheredChange>,
}

#[derive(Debug)]
struct GatheredChange {
    /// The first bytes of the key, as a number of the same order.
    head: u64,
    /// Where the key is in `keys`.
    start: usize,
    bytes: u32,
    /// Order of arrival.
    number: u32,
    version: VersionEntry,
}

impl GatheredChange {
    fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.start..self.start + self.bytes as usize]
    }
}

impl LastChanges {
    /// Whether they should be applied to the index, which has `index_keys` keys.
    pub(super) fn is_full(&self, index_keys: u64) -> bool {
        let changes_max = (index_keys / KEYS_FOR_EACH).clamp(CHANGES_MIN, CHANGES_MAX);
        self.changes.len() as u64 >= changes_max || self.keys.len() >= KEY_BYTES_MAX
    }

    pub(super) fn push(&mut self, change: &KeyChange, pointer: RecordPointer) {
        let key = &change.key[..];
        self.changes.push(GatheredChange {
            head: head_of(key),
            start: self.keys.len(),
            bytes: key.len() as u32,
            number: self.changes.len() as u32,
            version: VersionEntry {
                pointer,
                main: change.revision.main,
                tombstone: change.tombstone,
            },
        });
        self.keys.extend_from_slice(key);
    }

    /// Shows the last change of each key, in the order of keys, and forgets all of them.
    pub(super) fn drain(&mut self, mut show: impl FnMut(&[u8], VersionEntry)) {
        let keys = &self.keys[..];
        self.changes.sort_unstable_by(|left, right| {
            let by_key = || left.key(keys).cmp(right.key(keys));
            let order = left.head.cmp(&right.head).then_with(by_key);
            order.then(left.number.cmp(&right.number))
        });
        let of_one_key = |left: &GatheredChange, right: &GatheredChange| {
            left.head == right.head && left.key(keys) == right.key(keys)
        };
        for same in self.changes.chunk_by(of_one_key) {
            let last = same.last().expect("a chunk has changes");
            show(last.key(keys), last.version);
        }
        self.keys.clear();
        self.changes.clear();
    }
}

/// The first eight bytes of a key, with zeros behind a shorter one.
fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let bytes = key.len().min(head.len());
    head[..bytes].copy_from_slice(&key[..bytes]);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Revision;
    use bytes::Bytes;
    use environment::randomness::Random;
    use std::collections::BTreeMap;
    use value_log::Position;

    #[test]
    fn the_last_change_of_each_key_is_shown_in_the_order_of_keys() {
        let mut random = Random::from_seed(1);
        let mut gathered = LastChanges::default();
        for _ in 0..20 {
            let mut expected = BTreeMap::new();
            for step in 0..2_000 {
                // Some transactions write a key more than once.
                let (main, sub) = (1 + step / 40, step % 40);
                let mut key = vec![b'k'; random.below(12) as usize];
                random.fill(&mut key[..]);
                key.iter_mut().for_each(|byte| *byte %= 2);
                let tombstone = random.chance(1, 3);
                let change = KeyChange {
                    revision: Revision { main, sub },
                    tombstone,
                    key: Bytes::from(key.clone()),
                    kv: Bytes::new(),
                    created: 0,
                    version: 0,
                    lease: 0,
                };
                let pointer = RecordPointer::new(Position::new(7, step as u64 * 8), 64);
                gathered.push(&change, pointer);
                expected.insert(key, (pointer, tombstone));
            }
            let mut shown = Vec::new();
            gathered.drain(|key, version| {
                shown.push((key.to_vec(), (version.pointer, version.tombstone)));
            });
            assert!(shown.into_iter().eq(expected));
        }
    }
}
