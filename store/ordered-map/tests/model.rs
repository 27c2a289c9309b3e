//! Random operations, compared with a `BTreeMap`.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use environment::randomness::Random;
use ordered_map::{Compression, Durability, Map, Options, Snapshot, WriteBatch};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Each opening chooses whether it compresses.
fn open(directory: &tempfile::TempDir, random: &mut Random) -> Map {
    let options = Options::new(directory.path().join("data")).durability(Durability::Os);
    let compression = match random.chance(1, 2) {
        true => Compression::Lz4,
        false => Compression::None,
    };
    options
        .compression(compression)
        .segment_bytes(64 << 10)
        .reserve_bytes(0)
        .open()
        .unwrap()
}

fn key(random: &mut Random) -> Vec<u8> {
    let length = random.below(4) as usize;
    (0..length)
        .map(|_| b"ab\0\xff"[random.below(4) as usize])
        .collect()
}

/// Some compress, some in part, some not at all.
fn value(random: &mut Random) -> Vec<u8> {
    let mut value = vec![random.below(256) as u8; random.below(400) as usize];
    let noise = random.below(value.len() as u64 + 1) as usize;
    value[..noise].fill_with(|| random.next_u64() as u8);
    value
}

fn assert_same(snapshot: &Snapshot, pairs: &Pairs, random: &mut Random) {
    let (one, other) = (key(random), key(random));
    let (from, to) = (one.clone().min(other.clone()), one.max(other));
    let expected = || {
        pairs
            .range(from.clone()..to.clone())
            .map(|(key, value)| (&key[..], &value[..]))
    };
    let found: Vec<_> = snapshot
        .range(from.clone()..to.clone())
        .map(Result::unwrap)
        .collect();
    assert!(
        found
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .eq(expected())
    );
    let found: Vec<_> = snapshot
        .range(from.clone()..to.clone())
        .rev()
        .map(Result::unwrap)
        .collect();
    assert!(
        found
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .eq(expected().rev())
    );
    let mut visited = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        visited.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    snapshot
        .range(from.clone()..to.clone())
        .visit(visit)
        .unwrap();
    assert!(
        visited
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .eq(expected())
    );
    let asked = key(random);
    assert_eq!(
        snapshot.get(&asked).unwrap().as_deref(),
        pairs.get(&asked).map(|it| &it[..])
    );
}

#[test]
fn a_map_equals_a_btree_map_after_random_operations() {
    for seed in 0..8 {
        let mut random = Random::from_seed(seed);
        let directory = tempfile::tempdir().unwrap();
        let (mut map, mut pairs) = (open(&directory, &mut random), Pairs::new());
        let mut snapshots: Vec<(Snapshot, Pairs)> = Vec::new();
        for _ in 0..1_500 {
            match random.below(16) {
                0..8 => {
                    let (key, value) = (key(&mut random), value(&mut random));
                    map.put(&key, &value).unwrap();
                    pairs.insert(key, value);
                }
                8..11 => {
                    let key = key(&mut random);
                    assert_eq!(map.delete(&key).unwrap(), pairs.remove(&key).is_some());
                }
                11 => {
                    let (put, deleted) = (key(&mut random), key(&mut random));
                    let value = value(&mut random);
                    map.write(
                        WriteBatch::new()
                            .put(put.clone(), value.clone())
                            .delete(deleted.clone()),
                    )
                    .unwrap();
                    pairs.insert(put, value);
                    pairs.remove(&deleted);
                }
                12 => snapshots.push((map.snapshot(), pairs.clone())),
                13 if !snapshots.is_empty() => {
                    drop(snapshots.swap_remove(random.below(snapshots.len() as u64) as usize));
                }
                14 if random.below(20) == 0 => {
                    snapshots.clear();
                    drop(map);
                    map = open(&directory, &mut random);
                }
                _ => {
                    assert_same(&map.snapshot(), &pairs, &mut random);
                    for (snapshot, pairs) in &snapshots {
                        assert_same(snapshot, pairs, &mut random);
                    }
                }
            }
            assert_eq!(map.len(), pairs.len() as u64);
        }
    }
}
