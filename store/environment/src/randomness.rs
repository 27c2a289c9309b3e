//! Randomness that can be replayed.
//!
//! xoshiro256** seeded through SplitMix64 (Blackman and Vigna, public domain). It is forty lines
//! of our own, because a seed in a bug report must replay the same run years later, whatever a
//! dependency changes between releases. It is not for secrets: [`secret_bytes`] come from the
//! kernel.

use std::io;

/// A stream of pseudo-random numbers that is fully determined by its seed.
#[derive(Clone, Debug)]
pub struct Random {
    /// Never all zero, because the generator would return zeros for ever.
    state: [u64; 4],
}

/// Returns unpredictable bytes from the kernel, for challenges; at most 256.
pub fn secret_bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    const { assert!(COUNT <= 256, "the kernel may fill longer requests in part") };
    let mut bytes = [0; COUNT];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    assert_eq!(filled, COUNT, "getrandom fills short requests whole");
    Ok(bytes)
}

impl Random {
    /// Creates the stream of a seed.
    pub fn from_seed(seed: u64) -> Random {
        let mut counter = seed;
        let state = std::array::from_fn(|_| split_mix(&mut counter));
        assert_ne!(
            state, [0; 4],
            "SplitMix64 is a bijection of a moving counter"
        );
        Random { state }
    }

    /// Creates a stream with a seed from the kernel, which is different in each call.
    pub fn from_system() -> io::Result<Random> {
        Ok(Random::from_seed(u64::from_le_bytes(secret_bytes()?)))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        result
    }

    /// Returns a number in `0..bound`, each with the same probability.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        // Lemire: the high half of a product, rejecting the few low halves
        // that would favour some results.
        let unfair = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= unfair {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns true with the probability `numerator / denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Returns one of `choices`, each with the same probability.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns `bytes` with a few random changes: flipped bits, bytes of any value, and pieces that
    /// are cut out or doubled. For tests of decoders, which see much of a valid input so.
    pub fn damaged(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        for _ in 0..=self.below(4) {
            if damaged.is_empty() {
                break;
            }
            let length = damaged.len() as u64;
            let place = self.below(length) as usize;
            let end = place + self.below((length - place as u64).min(32) + 1) as usize;
            match self.below(5) {
                0 => damaged[place] ^= 1 << self.below(8),
                1 => damaged[place] = self.next_u64() as u8,
                2 => drop(damaged.drain(place..end)),
                3 => damaged.truncate(end),
                _ => {
                    let piece = damaged[place..end].to_vec();
                    damaged.splice(place..place, piece);
                }
            }
        }
        damaged
    }

    /// Creates an independent stream with the next number of this one as its seed.
    pub fn split(&mut self) -> Random {
        Random::from_seed(self.next_u64())
    }
}

fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *counter;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins the stream: a seed in an old report must still replay the same run.
    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut counter = 0;
        assert_eq!(split_mix(&mut counter), 0xe220_a839_7b1d_cdaf);
        let mut known = Random {
            state: [1, 2, 3, 4],
        };
        let first: [u64; 4] = std::array::from_fn(|_| known.next_u64());
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn below_reaches_every_number_and_no_other() {
        let mut random = Random::from_seed(7);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[random.below(6) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&times| (800..1_200).contains(&times)),
            "{seen:?}"
        );
    }

    #[test]
    fn chance_never_and_chance_always() {
        let mut random = Random::from_seed(1);
        assert!((0..100).all(|_| !random.chance(0, 3)));
        assert!((0..100).all(|_| random.chance(3, 3)));
    }

    #[test]
    fn fill_covers_a_tail_that_is_no_whole_word() {
        let mut bytes = [0; 1_003];
        Random::from_seed(3).fill(&mut bytes);
        assert!(bytes[1_000..].iter().any(|&byte| byte != 0));
    }

    #[test]
    fn damage_is_small_and_can_be_replayed() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut different = 0;
        for seed in 0..100 {
            let damaged = Random::from_seed(seed).damaged(&bytes);
            assert_eq!(damaged, Random::from_seed(seed).damaged(&bytes));
            assert!(damaged.len() <= bytes.len() + 4 * 32);
            different += usize::from(damaged != bytes);
        }
        assert!(different > 80, "{different}");
        assert!(Random::from_seed(1).damaged(&[]).is_empty());
    }

    #[test]
    fn two_system_streams_differ() {
        let mut one = Random::from_system().unwrap();
        let mut other = Random::from_system().unwrap();
        assert_ne!(one.next_u64(), other.next_u64());
    }
}
