//! Hashes of ascending keys, without hashing again what a key shares with the one before.
//!
//! ```text
//!   /registry/pods/blue/web-17        words   "/registr" "y/pods/b" "lue/web-"
//!                                     states       s1         s2         s3
//!   /registry/pods/blue/web-18        begins at s3 and takes "18"
//! ```
//!
//! Neighbours in a checkpoint share most of their bytes, and hashing whole keys would be a
//! quarter of all work.

/// The polynomial of CRC-64/NVME, reflected.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;
const WORD_BYTES: usize = 8;

/// `TABLES[n][byte]`: what a byte does to the state when `n` bytes follow it.
static TABLES: [[u64; 256]; WORD_BYTES] = tables();

const fn tables() -> [[u64; 256]; WORD_BYTES] {
    let mut tables = [[0; 256]; WORD_BYTES];
    let mut at = 0;
    while at < WORD_BYTES * 256 {
        let (following, byte) = (at / 256, at % 256);
        tables[following][byte] = if following == 0 {
            after_eight_bits(byte as u64)
        } else {
            let before = tables[following - 1][byte];
            (before >> 8) ^ tables[0][(before & 0xff) as usize]
        };
        at += 1;
    }
    tables
}

const fn after_eight_bits(mut state: u64) -> u64 {
    let mut bit = 0;
    while bit < 8 {
        state = (state >> 1) ^ ((state & 1) * POLYNOMIAL);
        bit += 1;
    }
    state
}

/// The leading words of the key before, and the state of the checksum behind each.
#[derive(Debug, Default)]
pub(super) struct KeyHasher {
    words: Vec<(u64, u64)>,
}

impl KeyHasher {
    /// CRC-64/NVME of a key, for [`crate::state_hash::of_hashed_key`].
    pub(super) fn hash(&mut self, key: &[u8]) -> u64 {
        let (words, tail) = key.as_chunks::<WORD_BYTES>();
        let mut state = !0;
        for (place, word) in words.iter().enumerate() {
            state = self.behind(place, u64::from_le_bytes(*word), state);
        }
        !tail
            .iter()
            .fold(state, |state, byte| add_byte(state, *byte))
    }

    /// The state behind a word, of the one before it. A word that differs ends what is known.
    #[inline]
    fn behind(&mut self, place: usize, word: u64, state: u64) -> u64 {
        match self.words.get(place) {
            Some(&(known, behind)) if known == word => behind,
            _ => {
                let behind = add_word(state, word);
                self.words.truncate(place);
                self.words.push((word, behind));
                behind
            }
        }
    }
}

fn add_word(state: u64, word: u64) -> u64 {
    let bytes = (state ^ word).to_le_bytes();
    let tables = TABLES.iter().rev();
    let parts = tables
        .zip(bytes)
        .map(|(table, byte)| table[usize::from(byte)]);
    parts.fold(0, |sum, part| sum ^ part)
}

fn add_byte(state: u64, byte: u8) -> u64 {
    (state >> 8) ^ TABLES[0][usize::from(state as u8 ^ byte)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc_fast::{CrcAlgorithm, checksum};
    use environment::randomness::Random;

    #[test]
    fn hashes_equal_the_checksums_of_whole_keys_in_any_order() {
        let mut random = Random::from_seed(1);
        let (mut hasher, mut key) = (KeyHasher::default(), Vec::new());
        for _ in 0..20_000 {
            key.truncate(random.below(key.len() as u64 + 1) as usize);
            for _ in 0..random.below(20) {
                // Few values, so that words come again in the same place.
                key.push(random.below(3) as u8 * 0x7f);
            }
            let expected = checksum(CrcAlgorithm::Crc64Nvme, &key);
            assert_eq!(hasher.hash(&key), expected, "{key:?}");
        }
    }

    #[test]
    fn a_key_that_is_a_part_of_the_one_before_is_hashed_alone() {
        let mut hasher = KeyHasher::default();
        for key in [
            &b"0123456789abcdefXY"[..],
            b"01234567",
            b"",
            b"0123456789abcdef",
        ] {
            assert_eq!(hasher.hash(key), checksum(CrcAlgorithm::Crc64Nvme, key));
        }
    }
}
