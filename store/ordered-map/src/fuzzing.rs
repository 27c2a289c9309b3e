//! Fuzz targets in `fuzz/`: stored pairs that may be damaged.

use bytes::Bytes;

use crate::compression::Compression;
use crate::pair;

/// Reads `kv` as a stored pair.
pub fn stored(kv: &[u8]) {
    let alone = pair::value(Bytes::copy_from_slice(kv));
    let mut memory = Vec::new();
    for _ in 0..2 {
        assert_eq!(alone.as_deref(), pair::value_of(kv, &mut memory));
    }
}

/// Checks that a pair comes back, compressed or not.
pub fn comes_back(key: &[u8], value: &[u8]) {
    for compression in [Compression::None, Compression::Lz4] {
        let stored = pair::encode(key, value, compression);
        assert_eq!(stored.key, key);
        let found = pair::value(stored.kv);
        assert_eq!(found.as_deref(), Some(value));
    }
}

#[cfg(test)]
mod tests {
    use environment::randomness::Random;

    use super::*;

    #[test]
    fn damaged_pairs_are_refused_or_read() {
        let mut random = Random::from_seed(1);
        for bytes in [0, 10, 300, 5_000] {
            let value: Vec<u8> = (0..bytes).map(|at| (at % 61) as u8).collect();
            comes_back(b"key", &value);
            let kv = pair::encode(b"key", &value, Compression::Lz4).kv;
            for _ in 0..2_000 {
                let damaged = random.damaged(&kv);
                stored(&damaged);
                comes_back(b"key", &damaged);
            }
        }
    }
}
