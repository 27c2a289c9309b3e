//! Values that identify the write they come from.
//!
//! ```text
//!   │ stamp, 8 bytes │ key number, 8 bytes │ bytes of the pool ─ ─ ─ ─ │
//! ```
//!
//! Length and pool offset follow from stamp and key, so a value can be checked byte by byte
//! without a copy of the written one. The pool keeps the cost of a value at one copy; the
//! stamp makes it differ from all others.

use rand::{Rng, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{ValueLength, ValueSpec};

/// Least size of the pool: larger than the window of every compressor that targets use by
/// default.
const POOL_BYTES_MIN: usize = 4 << 20;
/// Length of the pieces within which bytes repeat where values are compressible, as in
/// db_bench.
const PIECE_BYTES: usize = 100;
const STAMP_BYTES: usize = 8;

/// Identifier of the write that a value comes from; unique in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Bits for the writes of one client.
    const WRITE_BITS: u32 = 40;

    /// The stamp of the preload.
    pub const PRELOAD: Stamp = Stamp(0);

    /// The stamp of write number `write` of client number `client`.
    pub fn of(client: u32, write: u64) -> Stamp {
        assert!(
            write < 1 << Stamp::WRITE_BITS && client < (1 << 23),
            "stamps of client {client} are used up"
        );
        Stamp(u64::from(client + 1) << Stamp::WRITE_BITS | write)
    }
}

/// Makes values, and recognizes them.
#[derive(Debug)]
pub struct Values {
    length: ValueLength,
    unique: bool,
    pool: Vec<u8>,
}

impl Values {
    /// Values in the workload's format; equal seeds make equal values.
    pub fn new(spec: &ValueSpec, seed: u64) -> Values {
        let longest = usize::try_from(spec.length.max()).expect("lengths are bounded");
        Values {
            length: spec.length,
            unique: spec.unique,
            pool: pool(POOL_BYTES_MIN + longest, spec.compressible, seed),
        }
    }

    /// Replaces the contents of `value` by the value of this write.
    pub fn write(&self, key: u64, stamp: Stamp, value: &mut Vec<u8>) {
        value.clear();
        if !self.unique {
            let length = self.length.max() as usize;
            value.extend_from_slice(&self.pool[..length]);
            return;
        }
        let draw = mixed(stamp.0 ^ key.rotate_left(32));
        let length = self.length.at((draw >> 11) as f64 / (1_u64 << 53) as f64) as usize;
        value.extend_from_slice(&stamp.0.to_le_bytes());
        value.extend_from_slice(&key.to_le_bytes());
        if length <= value.len() {
            value.truncate(length);
            return;
        }
        let rest = length - value.len();
        let offset = (mixed(draw) as usize) % (self.pool.len() - rest);
        value.extend_from_slice(&self.pool[offset..offset + rest]);
    }

    /// The write that a value of this key comes from; `None` when no write made it, or when
    /// the value is too short for a stamp.
    pub fn stamp(&self, key: u64, value: &[u8]) -> Option<Stamp> {
        let stamp = value.get(..STAMP_BYTES)?.try_into().ok()?;
        let stamp = Stamp(u64::from_le_bytes(stamp));
        let mut expected = Vec::with_capacity(value.len());
        self.write(key, stamp, &mut expected);
        (self.unique && expected == value).then_some(stamp)
    }

    /// Whether every value identifies its write.
    pub fn tell_writes_apart(&self) -> bool {
        self.unique && self.length.at(0.0) >= STAMP_BYTES as u64
    }
}

/// Mixes all bits of a number (the finaliser of SplitMix64).
pub fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn pool(bytes: usize, compressible: f64, seed: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(mixed(seed));
    let mut pool = vec![0; bytes.next_multiple_of(PIECE_BYTES)];
    let fresh = ((PIECE_BYTES as f64 * compressible).ceil() as usize).clamp(1, PIECE_BYTES);
    for piece in pool.chunks_mut(PIECE_BYTES) {
        random.fill_bytes(&mut piece[..fresh]);
        for at in fresh..piece.len() {
            piece[at] = piece[at - fresh];
        }
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(length: &str, unique: bool) -> Values {
        let spec = ValueSpec {
            length: length.parse().unwrap(),
            unique,
            compressible: 1.0,
        };
        Values::new(&spec, 7)
    }

    fn value(values: &Values, key: u64, stamp: Stamp) -> Vec<u8> {
        let mut value = Vec::new();
        values.write(key, stamp, &mut value);
        value
    }

    #[test]
    fn a_value_identifies_its_write() {
        for length in ["fixed:8", "fixed:16", "fixed:256", "uniform:20..999"] {
            let values = values(length, true);
            let stamp = Stamp::of(3, 77);
            let written = value(&values, 5, stamp);
            assert_eq!(values.stamp(5, &written), Some(stamp), "{length}");
        }
    }

    #[test]
    fn a_changed_byte_or_another_key_is_detected() {
        let values = values("fixed:256", true);
        let mut written = value(&values, 5, Stamp::of(3, 77));
        assert_eq!(values.stamp(6, &written), None);
        written[200] ^= 1;
        assert_eq!(values.stamp(5, &written), None);
        assert_eq!(values.stamp(5, b"short"), None);
    }

    #[test]
    fn unique_values_are_unique_and_others_are_not() {
        let unique = values("fixed:64", true);
        assert_ne!(
            value(&unique, 1, Stamp::of(0, 1)),
            value(&unique, 1, Stamp::of(0, 2))
        );
        let alike = values("fixed:64", false);
        assert_eq!(
            value(&alike, 1, Stamp::of(0, 1)),
            value(&alike, 2, Stamp::of(9, 2))
        );
        assert!(!alike.tell_writes_apart());
        assert!(!values("fixed:4", true).tell_writes_apart());
    }

    #[test]
    fn lengths_are_uniform_over_the_given_range() {
        let values = values("uniform:100..199", true);
        let mut counts = [0_u32; 100];
        for write in 0..100_000 {
            counts[value(&values, write % 10, Stamp::of(0, write)).len() - 100] += 1;
        }
        // 99 degrees of freedom: above 160 once in ten thousand seeds.
        let chi_square: f64 = counts
            .iter()
            .map(|count| (f64::from(*count) - 1000.0).powi(2) / 1000.0)
            .sum();
        assert!(chi_square < 160.0, "{chi_square}");
    }

    #[test]
    fn compressible_pieces_repeat_themselves() {
        let pool = pool(1000, 0.5, 1);
        assert_eq!(pool[..50], pool[50..100]);
        assert_ne!(pool[..50], pool[100..150]);
    }
}
