//! Two sums that tell whether members have applied the same and hold the same keys.
//!
//! ```text
//!   effects   + h(index, revision, bytes)  of every effect that is applied     never subtracted
//!   keys      + h(key, main)               of a version that enters CURRENT
//!             - h(key, main)               of a version that leaves it
//! ```
//!
//! Sums do not depend on an order, so each change costs the same, whatever the size of the
//! store. `effects` covers every byte of a version (value, version, lease and all) at the moment
//! it is applied. `keys` is a function of the tree alone, so a walk over the tree computes it
//! again. Equal sums at the same index mean the same live state, as long as the bytes in the
//! log are the ones that were applied; the records' checksums say whether they are.
//!
//! The sum of effects begins at an index (`since`): 0 in a new directory, and the applied index
//! where a directory of an earlier release is opened or a snapshot is installed. Sums with
//! different beginnings cannot be compared, so a member takes over the sum of the leader at an
//! index that both have applied ([`Sums::take_over`]), and is compared from there on.
//!
//! The hash is CRC-64, which detects every change of up to 64 adjacent bits, followed by a
//! bijective mix, because sums of bare CRCs could cancel out.

use crate::{Batch, Change, KeyChange};
use crc_fast::{CrcAlgorithm, checksum};
use environment::Mutex;
use std::collections::VecDeque;

/// Batches for which the hash is kept, for members that reach an index at another time.
const KEPT_MAX: usize = 1024;

/// The hash of the state after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHash {
    /// Index of the batch.
    pub index: u64,
    /// Last main revision.
    pub revision: i64,
    /// Index behind which the effects are counted.
    pub since: u64,
    /// Sum over all effects behind `since`.
    pub effects: u64,
    /// Sum over the newest versions of all keys that exist.
    pub keys: u64,
}

/// The sums that the applying thread keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Nothing is summed, for stores that are compared with no other.
    pub(crate) off: bool,
    pub(crate) since: u64,
    pub(crate) effects: u64,
    pub(crate) keys: u64,
}

impl Sums {
    /// Takes a version out of the sum of keys.
    pub(crate) fn leave(&mut self, key: &[u8], main: i64) {
        if !self.off {
            self.keys = self.keys.wrapping_sub(of_key(key, main));
        }
    }

    /// Replaces a version, or none, by a newer one, or none. The key is hashed once.
    pub(crate) fn replace(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) {
        if self.off {
            return;
        }
        let key = crc64(key);
        if let Some(main) = before {
            self.keys = self.keys.wrapping_sub(of_hashed_key(key, main));
        }
        if let Some(main) = after {
            self.keys = self.keys.wrapping_add(of_hashed_key(key, main));
        }
    }

    /// Adds the effects of a batch.
    pub(crate) fn absorb(&mut self, batch: &Batch) {
        if self.off {
            return;
        }
        let effects = batch.changes.iter().map(|change| match change {
            Change::Key(change) => of_version(change),
            Change::State { kind, payload } => of_state(batch.index, *kind, payload),
        });
        self.effects = effects.fold(self.effects, u64::wrapping_add);
    }
}

/// The element of a key in the sum of keys.
pub(crate) fn of_key(key: &[u8], main: i64) -> u64 {
    of_hashed_key(crc64(key), main)
}

/// The same for a key with this CRC-64.
pub(crate) fn of_hashed_key(key: u64, main: i64) -> u64 {
    mix(key ^ mix(main as u64))
}

fn of_version(change: &KeyChange) -> u64 {
    let sub = (change.revision.sub as u64) << 1 | u64::from(change.tombstone);
    mix(mix(mix(change.revision.main as u64) ^ sub) ^ crc64(&change.kv))
}

/// The index keeps equal records of different batches apart.
fn of_state(index: u64, kind: u8, payload: &[u8]) -> u64 {
    let place = mix(!index) ^ u64::from(kind);
    mix(mix(place) ^ crc64(payload))
}

fn crc64(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// A bijection of 64 bits in which each bit of the input changes half of the output
/// (the finalizer of SplitMix64).
fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The hashes after the last batches, for all threads.
#[derive(Debug, Default)]
pub(crate) struct StateHashes(Mutex<VecDeque<StateHash>>);

impl StateHashes {
    /// Notes the hash after a batch, unless that of a later one is noted.
    pub(crate) fn note(&self, hash: StateHash) {
        let mut kept = self.0.lock();
        if let Some(last) = kept.back_mut().filter(|last| last.index >= hash.index) {
            // A batch joined the last entry.
            if last.index == hash.index && last.revision < hash.revision {
                *last = hash;
            }
            return;
        }
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(hash);
    }

    /// Forgets all: a snapshot replaces the state.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn newest(&self) -> Option<StateHash> {
        self.0.lock().back().copied()
    }

    /// The hash after the batch of this index, if it is kept.
    pub(crate) fn at(&self, index: u64) -> Option<StateHash> {
        let kept = self.0.lock();
        let found = kept.binary_search_by_key(&index, |hash| hash.index);
        found.ok().map(|at| kept[at])
    }

    /// The sum of keys at a revision, if one is kept. All batches of one revision have the
    /// same, because a change of a key raises the revision.
    pub(crate) fn keys_at(&self, revision: i64) -> Option<u64> {
        let kept = self.0.lock();
        let mut from_the_newest = kept.iter().rev();
        let found = from_the_newest.find(|hash| hash.revision <= revision);
        found
            .filter(|hash| hash.revision == revision)
            .map(|hash| hash.keys)
    }

    /// Makes the kept sums those of another member, of which `theirs` is one; `ours` is the
    /// present state's. Returns false if no sum is kept of its index.
    pub(crate) fn take_over(&self, ours: &mut Sums, theirs: &StateHash) -> bool {
        let mut kept = self.0.lock();
        let Ok(at) = kept.binary_search_by_key(&theirs.index, |hash| hash.index) else {
            return false;
        };
        let difference = theirs.effects.wrapping_sub(kept[at].effects);
        for hash in kept.iter_mut() {
            hash.since = theirs.since;
            hash.effects = hash.effects.wrapping_add(difference);
        }
        ours.since = theirs.since;
        ours.effects = ours.effects.wrapping_add(difference);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Revision;
    use bytes::Bytes;

    fn put(main: i64, key: &'static [u8], kv: &'static [u8]) -> Change {
        Change::Key(KeyChange {
            revision: Revision { main, sub: 0 },
            tombstone: false,
            key: Bytes::from_static(key),
            kv: Bytes::from_static(kv),
            created: main,
            version: 1,
            lease: 0,
        })
    }

    fn sum_of(changes: &[Change]) -> u64 {
        let mut sums = Sums::default();
        sums.absorb(&Batch {
            term: 1,
            index: 9,
            changes: changes.to_vec(),
        });
        sums.effects
    }

    fn hash(index: u64, revision: i64, effects: u64) -> StateHash {
        StateHash {
            index,
            revision,
            since: 0,
            effects,
            keys: revision as u64,
        }
    }

    #[test]
    fn every_bit_of_an_effect_changes_the_sum() {
        let kv = b"\x0a\x04name\x2a\x05value".to_vec();
        let of = |kv: Vec<u8>| {
            let Change::Key(change) = put(7, b"name", b"") else {
                unreachable!("it is a key")
            };
            sum_of(&[Change::Key(KeyChange {
                kv: kv.into(),
                ..change
            })])
        };
        let whole = of(kv.clone());
        for bit in 0..kv.len() * 8 {
            let mut flipped = kv.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(flipped), whole, "bit {bit}");
        }
    }

    #[test]
    fn kind_revision_and_tombstone_count() {
        let one = put(7, b"k", b"v");
        let Change::Key(change) = one.clone() else {
            unreachable!("it is a key")
        };
        let deleted = Change::Key(KeyChange {
            tombstone: true,
            ..change.clone()
        });
        let later = Change::Key(KeyChange {
            revision: Revision { main: 7, sub: 1 },
            ..change
        });
        let state = |kind| Change::State {
            kind,
            payload: Bytes::from_static(b"v"),
        };
        let all = [one, deleted, later, put(8, b"k", b"v"), state(1), state(2)];
        let sums: std::collections::BTreeSet<u64> = all
            .iter()
            .map(|it| sum_of(std::slice::from_ref(it)))
            .collect();
        assert_eq!(sums.len(), all.len());
    }

    #[test]
    fn keys_that_come_and_go_leave_nothing() {
        let mut sums = Sums::default();
        sums.replace(b"a", None, Some(2));
        sums.replace(b"b", None, Some(3));
        sums.replace(b"a", Some(2), Some(4));
        let both = sums.keys;
        sums.replace(b"c", None, Some(5));
        sums.leave(b"c", 5);
        assert_eq!(sums.keys, both);
        assert_eq!(both, of_key(b"b", 3).wrapping_add(of_key(b"a", 4)));
        sums.replace(b"a", Some(4), None);
        sums.replace(b"b", Some(3), None);
        assert_eq!(sums.keys, 0);
    }

    #[test]
    fn hashes_are_found_by_index_and_revision_while_they_are_kept() {
        let hashes = StateHashes::default();
        for index in 1..=KEPT_MAX as u64 + 10 {
            hashes.note(hash(index * 2, index as i64 / 2, index));
        }
        hashes.note(hash(4, 1, 99));
        assert_eq!(hashes.at(20), None, "too old");
        assert_eq!(hashes.at(101), None, "no batch");
        assert_eq!(hashes.at(100).map(|it| it.effects), Some(50));
        assert_eq!(hashes.keys_at(30), Some(30));
        assert_eq!(hashes.keys_at(1 << 40), None);
        hashes.clear();
        assert_eq!(hashes.newest(), None);
    }

    #[test]
    fn sums_are_equal_after_one_was_taken_over_and_differ_after_a_different_effect() {
        let hashes = StateHashes::default();
        let mut ours = Sums {
            since: 5,
            effects: 30,
            ..Sums::default()
        };
        hashes.note(hash(6, 6, 10));
        hashes.note(hash(7, 7, 30));
        let theirs = StateHash {
            since: 2,
            ..hash(6, 6, 1000)
        };
        assert!(!hashes.take_over(&mut ours, &hash(8, 8, 0)), "not reached");
        assert!(hashes.take_over(&mut ours, &theirs));
        assert_eq!((ours.since, ours.effects), (2, 1020));
        assert_eq!(hashes.at(6), Some(theirs));
        assert_eq!(hashes.newest().map(|it| it.effects), Some(1020));
    }
}
