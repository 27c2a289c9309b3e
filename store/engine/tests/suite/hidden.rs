//! One transaction writes a key more than once: no read sees what it replaced
//! itself, but it is kept for HashKV until a compaction, wherever it moves.

use crate::store;

use bytes::Bytes;
use environment::simulated::SimulatedDisk;
use store::model::Model;
use store::{Store, delete, encode, options, put};

/// Keys put twice and deleted, deleted and put, with bystanders.
fn fill(store: &mut Store, rounds: u8) {
    for round in 0..rounds {
        store
            .write(&[
                put("both", [round; 300]),
                put("twice", [round; 300]),
                put("twice", [round; 200]),
                delete("both"),
                put("stays", [round; 100]),
            ])
            .unwrap();
        store.write(&[put("between", [round])]).unwrap();
    }
}

fn check(store: &mut Store) {
    store.check_all();
    for at in store.model.compacted.max(1)..=store.model.revision {
        store.check_hash(at);
    }
}

#[test]
fn versions_replaced_by_their_transaction_are_hashed_and_never_read() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    fill(&mut store, 3);
    check(&mut store);
    assert_eq!(store.get(b"both", store.model.revision), None);
    let twice = store.get(b"twice", 2).unwrap();
    assert_eq!(twice.kv, encode(b"twice", &[0; 200]));
    let mut store = store.reopen(&disk);
    check(&mut store);
}

#[test]
fn a_compaction_drops_it_from_its_revision_on() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    fill(&mut store, 10);
    for revision in [2, 3, 7, 12, 13, 21] {
        store.compact(revision).unwrap();
        check(&mut store);
    }
    check(&mut store.reopen(&disk));
}

#[test]
fn it_outlives_checkpoints_and_defragmentation() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    fill(&mut store, 40);
    store.compact(20).unwrap();
    store.checkpoint().unwrap();
    let mut store = store.reopen(&disk);
    assert_eq!(store.recovered.batches, 0, "all from the checkpoint");
    check(&mut store);
    store.defragment().unwrap();
    assert!(store.engine.status().upkeep.relocated_bytes > 0);
    check(&mut store);
    let mut store = store.reopen(&disk);
    check(&mut store);
    store.compact(store.model.revision).unwrap();
    store.defragment().unwrap();
    check(&mut store);
}

#[test]
fn a_key_deleted_and_put_by_one_transaction_shows_the_put_alone() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    store.write(&[put("k", "old")]).unwrap();
    store
        .write(&[delete("k"), put("k", "new"), delete("k"), put("k", "last")])
        .unwrap();
    store.write(&[put("k", "after")]).unwrap();
    let read = |store: &Store, at| store.get(b"k", at).map(|stored| stored.kv);
    let hashed = |store: &Store| -> Vec<Bytes> {
        let versions = store.engine.versions_in_revision_order(0).unwrap();
        versions.map(|stored| stored.unwrap().kv).collect()
    };
    for round in 0..2 {
        assert_eq!(read(&store, 2), Some(encode(b"k", b"old")));
        assert_eq!(read(&store, 3), Some(encode(b"k", b"last")));
        assert_eq!(read(&store, 4), Some(encode(b"k", b"after")));
        assert_eq!(
            store.engine.count(&store.engine.snapshot(), b"k", None, 3),
            1
        );
        assert_eq!(hashed(&store).len(), 6, "round {round}");
        store = store.reopen(&disk);
    }
}

/// If no key exists at the hashed revision, the survivors of the last compaction count, too. etcd looks at
/// the deletion of a key that the transaction of that revision deleted and put again.
#[test]
fn a_key_that_the_hashed_revision_deleted_and_put_hides_no_survivor_of_a_compaction() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    store.write(&[put("k", "old")]).unwrap();
    store.write(&[put("m", "old")]).unwrap();
    store.compact(3).unwrap();
    store
        .write(&[delete("k"), delete("m"), put("k", "new")])
        .unwrap();
    store.write(&[put("m", "after")]).unwrap();
    for _ in 0..2 {
        let versions = store.engine.versions_in_revision_order(4).unwrap();
        assert_eq!(versions.count(), 5, "both old ones, and all three changes");
        check(&mut store);
        store = store.reopen(&disk);
    }
}

/// The checkpoint walks HIDDEN last and beside the writes: it may hold what it
/// saw of no other tree, and replay meets it again.
#[test]
fn a_checkpoint_beside_such_writes_counts_nothing_twice() {
    let disk = SimulatedDisk::new(1);
    let often = engine::Options {
        checkpoint_bytes: 8 << 10,
        ..options()
    };
    let mut store = Store::open(&disk, often, Model::default()).unwrap();
    for _ in 0..40 {
        fill(&mut store, 5);
        store.maintain().unwrap();
        if store.model.revision % 4 == 1 {
            store = store.reopen(&disk);
            store.check_kept();
        }
    }
    assert!(store.model.revision > 300);
    let store = store.reopen(&disk);
    store.check_kept();
    store.check_hash(store.model.revision);
}
