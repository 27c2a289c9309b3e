//! Bytes of keys, from their numbers.

use std::io::Write as _;

use super::{KeyKind, KeySpec, Load, mixed};

impl Load {
    /// Mean length of a key, in bytes. Lengths of the kinds without padding differ by little,
    /// so the length of the last key stands for them.
    pub fn key_bytes_mean(&self) -> f64 {
        self.key.size.max(self.key.kind.bytes_min(self.keys)) as f64
    }
}

impl KeySpec {
    /// Replaces the contents of `key` by the key with this number.
    pub fn write(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        match self.kind {
            KeyKind::U64BigEndian => key.extend_from_slice(&number.to_be_bytes()),
            KeyKind::U64Random => key.extend_from_slice(&mixed(number).to_be_bytes()),
            KeyKind::Kubernetes => pod(number, key),
            KeyKind::EtcdVarint => varint(number, key),
            KeyKind::DbBench => {
                write!(key, "{number:016}").expect("a vector takes everything");
            }
            KeyKind::Series => {
                write!(key, "series-{number}").expect("a vector takes everything");
            }
            KeyKind::Ycsb => {
                let mixed = mixed(number);
                write!(key, "user{mixed:020}").expect("a vector takes everything");
            }
        }
        if key.len() < self.size {
            key.resize(self.size, 0);
        }
    }
}

/// Appends the name of a pod.
fn pod(number: u64, key: &mut Vec<u8>) {
    /// Kubernetes ends the names that it makes with letters and digits that form no words.
    const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    const SUFFIXES: u64 = 27_u64.pow(5);
    /// Has no divisor in common with the number of suffixes, so neighbours differ.
    const STRIDE: u64 = 8_191_013;
    let deployment = number / 10;
    let (namespace, replica_set) = (deployment / 50, mixed(deployment) >> 24);
    write!(
        key,
        "/registry/pods/namespace-{namespace:05}/deployment-{deployment:07}-{replica_set:010x}-"
    )
    .expect("a vector takes everything");
    let mut rest = number % SUFFIXES * STRIDE % SUFFIXES;
    for _ in 0..5 {
        key.push(SUFFIX_LETTERS[(rest % 27) as usize]);
        rest /= 27;
    }
}

/// Appends a varint as Go's `binary.PutVarint` writes a number that is not negative.
fn varint(number: u64, key: &mut Vec<u8>) {
    let mut rest = number << 1;
    while rest >= 0x80 {
        key.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    key.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: KeyKind, size: usize, number: u64) -> Vec<u8> {
        let mut key = vec![7];
        KeySpec { kind, size }.write(number, &mut key);
        key
    }

    #[test]
    fn each_kind_has_the_bytes_of_its_origin() {
        assert_eq!(key(KeyKind::U64BigEndian, 0, 258), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(
            key(KeyKind::EtcdVarint, 8, 300),
            [0xd8, 4, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(key(KeyKind::DbBench, 0, 42), b"0000000000000042");
        assert_eq!(key(KeyKind::Series, 0, 42), b"series-42");
        assert_eq!(
            key(KeyKind::U64Random, 0, 42),
            13_679_457_532_755_275_413_u64.to_be_bytes()
        );
        let pod = String::from_utf8(key(KeyKind::Kubernetes, 0, 12_345)).unwrap();
        assert_eq!(
            pod,
            "/registry/pods/namespace-00024/deployment-0001234-bb0cf61b2f-fcqqd"
        );
        assert_eq!(key(KeyKind::Ycsb, 0, 42), b"user13679457532755275413");
    }

    #[test]
    fn short_keys_are_filled_up() {
        assert_eq!(
            key(KeyKind::U64BigEndian, 10, 1),
            [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
        );
    }

    #[test]
    fn distinct_numbers_are_distinct_keys() {
        for kind in [
            KeyKind::U64BigEndian,
            KeyKind::U64Random,
            KeyKind::Kubernetes,
            KeyKind::EtcdVarint,
            KeyKind::DbBench,
            KeyKind::Series,
            KeyKind::Ycsb,
        ] {
            let size = kind.bytes_min(5000);
            let keys: std::collections::BTreeSet<_> =
                (0..5000).map(|number| key(kind, size, number)).collect();
            assert_eq!(keys.len(), 5000, "{kind:?}");
        }
    }
}
