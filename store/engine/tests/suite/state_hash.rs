//! The hash of the state: equal where the same was applied, through restarts, and other
//! where a single entry of the index has changed.

use crate::store;

use engine::{KeyWalk, MemoryFault, StateHash};
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use store::model::Model;
use store::{Store, delete, options, put};

/// Writes, deletes, compacts and maintains at random.
fn work(store: &mut Store, random: &mut Random, steps: u64) {
    for _ in 0..steps {
        let key = format!("key{}", random.below(40));
        match random.below(20) {
            0 => store.compact(store.model.revision).unwrap(),
            1..=4
                if store
                    .model
                    .range(key.as_bytes(), None, store.model.revision)
                    .len()
                    > 1 =>
            {
                let _ = store.write(&[put(&key, "x"), delete(&key)]);
            }
            5 => {
                let many: Vec<_> = (0..100).map(|n| put(format!("many{n:03}"), "y")).collect();
                store.write(&many).unwrap();
                let gone: Vec<_> = (0..100).map(|n| delete(format!("many{n:03}"))).collect();
                store.write(&gone).unwrap();
            }
            _ => store
                .write(&[put(&key, format!("{}", random.next_u64()))])
                .unwrap(),
        }
        store.maintain().unwrap();
    }
}

fn hash(store: &Store) -> StateHash {
    store.engine.state_hash().unwrap()
}

fn walk(store: &Store) -> Option<KeyWalk> {
    store.engine.check_keys(&mut || true)
}

#[test]
fn stores_with_the_same_history_have_the_same_hash_whatever_their_upkeep_did() {
    let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
    let mut stores = disks.each_ref().map(Store::new);
    for round in 0..6 {
        for store in &mut stores {
            work(store, &mut Random::from_seed(round), 60);
        }
        assert_eq!(hash(&stores[0]), hash(&stores[1]));
        assert_eq!(walk(&stores[0]), Some(KeyWalk::Sound));
        let [first, second] = stores;
        let mut first = first.reopen(&disks[0]);
        first.checkpoint().unwrap();
        stores = [first.reopen(&disks[0]), second];
        assert_eq!(hash(&stores[0]), hash(&stores[1]), "after a restart");
        assert_eq!(hash(&stores[0]).since, 0);
    }
}

#[test]
fn another_value_of_one_key_gives_another_hash_for_ever() {
    let (left, right) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mut left, mut right) = (Store::new(&left), Store::new(&right));
    left.write(&[put("k", "value")]).unwrap();
    right.write(&[put("k", "valve")]).unwrap();
    for store in [&mut left, &mut right] {
        store.write(&[put("k", "the same")]).unwrap();
        store.compact(3).unwrap();
    }
    assert_eq!(hash(&left).keys, hash(&right).keys);
    assert_ne!(hash(&left).effects, hash(&right).effects);
}

/// A store with some history and the key `victim`.
fn with_a_victim(disk: &SimulatedDisk) -> Store {
    let mut store = Store::new(disk);
    work(&mut store, &mut Random::from_seed(7), 50);
    store.write(&[put("victim", "value")]).unwrap();
    assert!(
        !store
            .applier
            .spoil_in_memory(b"no such key", MemoryFault::Revision)
    );
    assert_eq!(walk(&store), Some(KeyWalk::Sound));
    store
}

fn spoil(store: &mut Store, fault: MemoryFault) {
    assert!(store.applier.spoil_in_memory(b"victim", fault));
}

#[test]
fn a_revision_that_changes_in_memory_is_corrected_from_the_record() {
    let disk = SimulatedDisk::new(1);
    let mut store = with_a_victim(&disk);
    spoil(&mut store, MemoryFault::Revision);
    assert_eq!(walk(&store), Some(KeyWalk::Correctable(1)));
    assert!(!store.engine.has_spoiled_index());
    store.maintain().unwrap();
    assert_eq!(walk(&store), Some(KeyWalk::Sound));
    store.check_reads();
    store.reopen(&disk).check_reads();
}

#[test]
fn an_entry_that_was_written_over_is_not_corrected() {
    let disk = SimulatedDisk::new(1);
    let mut store = with_a_victim(&disk);
    spoil(&mut store, MemoryFault::Revision);
    assert_eq!(walk(&store), Some(KeyWalk::Correctable(1)));
    // The put leaves the trace of the fault: the sum is not the one of other members.
    store.write(&[put("victim", "another")]).unwrap();
    store.maintain().unwrap();
    assert_eq!(walk(&store), Some(KeyWalk::Spoiled));
    assert!(store.engine.has_spoiled_index());
}

#[test]
fn an_entry_that_is_lost_in_memory_is_found_by_a_walk() {
    let disk = SimulatedDisk::new(1);
    let mut store = with_a_victim(&disk);
    spoil(&mut store, MemoryFault::Lost);
    assert_eq!(walk(&store), Some(KeyWalk::Spoiled));
    assert!(store.engine.has_spoiled_index());
}

/// Writes keys enough that a walk asks once whether it goes on.
fn fill(store: &mut Store) {
    for part in 0..50 {
        let some: Vec<_> = (0..100)
            .map(|n| put(format!("{part:02}{n:02}"), ""))
            .collect();
        store.write(&some).unwrap();
    }
}

#[test]
fn a_walk_ends_when_too_much_memory_waits_for_its_end() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::open(&disk, options(), Model::default()).unwrap();
    fill(&mut store);
    let engine = store.engine.clone();
    // Each write replaces all leaves, of more than 64 KiB together.
    let one_in_each_leaf: Vec<_> = (0..50)
        .map(|part| put(format!("{part:02}00"), ""))
        .collect();
    let mut asked = 0;
    let walked = engine.check_keys(&mut || {
        asked += 1;
        (0..1_000).for_each(|_| store.write(&one_in_each_leaf).unwrap());
        true
    });
    assert_eq!((walked, asked), (None, 1));
    // Other tests of this process hold the collector back for moments.
    let is_sound = (0..10_000).any(|_| {
        store.write(&[put("0000", "")]).unwrap();
        walk(&store) == Some(KeyWalk::Sound)
    });
    assert!(is_sound, "no walk reaches its end any more");
}

#[test]
fn a_walk_ends_when_its_caller_stops_it() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::open(&disk, options(), Model::default()).unwrap();
    fill(&mut store);
    assert_eq!(store.engine.check_keys(&mut || false), None);
    assert_eq!(walk(&store), Some(KeyWalk::Sound));
}
