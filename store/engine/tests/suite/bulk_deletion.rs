//! One transaction deletes many keys in their order.

use crate::store;

use std::collections::BTreeSet;

use bytes::Bytes;
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use store::{Store, Write, delete, put};

fn key(number: u64) -> String {
    format!("key/{number:04}")
}

fn check(store: &mut Store) {
    store.check_all();
    for at in store.model.compacted.max(1)..=store.model.revision {
        store.check_hash(at);
    }
}

/// Deletions in order and in another order leave the same behind.
#[test]
fn the_order_of_deletions_makes_no_difference() {
    let (one, other) = (SimulatedDisk::new(1), SimulatedDisk::new(1));
    let mut stores = [Store::new(&one), Store::new(&other)];
    let keys: Vec<String> = (0..300).map(key).collect();
    for (store, descending) in stores.iter_mut().zip([false, true]) {
        let puts: Vec<Write> = keys.iter().map(|key| put(key, "v")).collect();
        store.write(&puts).unwrap();
        store.write(&[put(&keys[7], "w")]).unwrap();
        let mut deletions: Vec<Write> = keys[3..297].iter().map(delete).collect();
        if descending {
            deletions.reverse();
        }
        store.write(&deletions).unwrap();
        check(store);
    }
    let [one, other] = stores.map(|store| {
        let status = store.engine.status();
        (status.keys, status.versions, status.live_bytes)
    });
    assert_eq!(one, other);
}

/// Keys that one transaction puts and then deletes with their neighbours.
#[test]
fn deletions_of_random_ranges_follow_the_model() {
    let disk = SimulatedDisk::new(2);
    let mut store = Store::new(&disk);
    let mut random = Random::from_seed(2);
    for round in 0..24 {
        let mut living: BTreeSet<Bytes> = store.model.keys_now().into_iter().collect();
        let (first, mut writes) = (random.below(300), Vec::new());
        for number in first..first + random.below(150) {
            if random.chance(9, 10) {
                writes.push(put(key(number), [round; 20]));
                living.insert(key(number).into());
            }
        }
        let end = key(first + random.below(250));
        let range = living.range(Bytes::from(key(first))..Bytes::from(end));
        let deleted = range.filter(|_| random.chance(19, 20));
        writes.extend(deleted.map(delete));
        if random.chance(1, 3) {
            writes.push(put(key(first), "after"));
        }
        if !writes.is_empty() {
            store.write(&writes).unwrap();
        }
        match random.below(8) {
            0 => store.compact(store.model.revision - 1).unwrap(),
            1 => store.checkpoint().unwrap(),
            2 => store = store.reopen(&disk),
            _ => {}
        }
        check(&mut store);
    }
    check(&mut store.reopen(&disk));
}
