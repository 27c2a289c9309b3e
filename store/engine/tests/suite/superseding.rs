//! `apply_and_compact` against `apply` and `compact`: the same state, without a sweep.

use crate::store;

use engine::{Engine, Status};
use environment::randomness::Random;
use environment::simulated::{Restart, SimulatedDisk};
use store::model::Model;
use store::{Store, Write, delete, options, put, seed};

/// One transaction, applied without keeping what it replaces.
fn supersede(store: &mut Store, writes: &[Write]) {
    let batch = store.batch(writes);
    let appended = store.append(&batch).unwrap();
    store.index = batch.index;
    store.engine.wait_durable(appended.sequence).unwrap();
    store.applier.apply_and_compact(&batch, &appended);
    store.model.apply(&batch);
}

fn keep_and_compact(store: &mut Store, writes: &[Write]) {
    store.write(writes).unwrap();
    store.applier.compact(store.model.revision);
    store.applier.finish_compaction();
}

/// Keys are written once in a transaction, and what is deleted exists.
fn writes(random: &mut Random, model: &Model) -> Vec<Write> {
    let first = random.below(20);
    let keys = first..first + 1 + random.below(4);
    keys.map(|number| {
        let key = format!("{number:02}");
        let exists = model.visible(key.as_bytes(), model.revision).is_some();
        match exists && random.below(3) == 0 {
            true => delete(key),
            false => put(key, vec![b'v'; random.below(300) as usize]),
        }
    })
    .collect()
}

/// What the state is, whatever it cost.
fn state(engine: &Engine) -> (Vec<(bytes::Bytes, i64)>, Status) {
    let snapshot = engine.snapshot();
    let now = snapshot.range(&[], None, i64::MAX);
    let now = now.map(|version| (engine.read(&version).unwrap().kv, version.main));
    let status = engine.status();
    let status = Status {
        revision: status.revision,
        compacted: status.compacted,
        keys: status.keys,
        versions: status.versions,
        live_bytes: status.live_bytes,
        ..Status::default()
    };
    (now.collect(), status)
}

#[test]
fn superseding_leaves_the_same_state_as_a_compaction_and_its_sweep() {
    for number in 0..20 {
        let mut random = Random::from_seed(seed(number));
        let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
        let [mut one, mut other] = disks.each_ref().map(Store::new);
        for _ in 0..60 {
            let writes = writes(&mut random, &one.model);
            supersede(&mut one, &writes);
            keep_and_compact(&mut other, &writes);
            let (one_now, other_now) = (state(&one.engine), state(&other.engine));
            assert_eq!(one_now.0, other_now.0);
            // A compaction keeps what was deleted at its own revision, for watches.
            if !writes.iter().any(|write| matches!(write, Write::Delete(_))) {
                assert_eq!(one_now.1, other_now.1);
            }
            assert!(!one.applier.is_sweeping(), "nothing is left to sweep");
        }
        let before = state(&one.engine);
        drop(one);
        let mut one = Store::open(&disks[0], options(), Model::default()).unwrap();
        one.applier.compact(before.1.revision);
        one.applier.finish_compaction();
        assert_eq!(state(&one.engine).0, before.0, "after opening again");
    }
}

#[test]
fn versions_kept_from_before_are_swept() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    store.write(&[put("a", "1"), put("b", "1")]).unwrap();
    store.write(&[put("a", "2")]).unwrap();
    supersede(&mut store, &[delete("a")]);
    assert!(store.applier.is_sweeping());
    assert_eq!(store.engine.snapshot().compacted(), 4);
    store.applier.finish_compaction();
    assert_eq!(state(&store.engine).0.len(), 1);
    supersede(&mut store, &[put("b", "2")]);
    store.applier.finish_compaction();
    let status = store.engine.status();
    assert_eq!(status.versions, 1, "nothing old is there any more");
}

#[test]
fn held_versions_are_kept_until_they_are_dropped() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    store.write(&[put("a", "1")]).unwrap();
    let held = store.applier.hold_versions(store.model.revision, -1);
    let held = std::sync::Arc::new(held);
    supersede(&mut store, &[put("a", "2")]);
    let hashed = held.versions().unwrap().map(Result::unwrap);
    assert!(hashed.map(|stored| stored.revision.main).eq([2]));
    drop(held);
    store.applier.finish_compaction();
    assert_eq!(store.engine.status().versions, 1);
}

#[test]
fn a_checkpoint_beside_superseding_batches_restores_the_same_state() {
    let options = engine::Options {
        checkpoint_bytes: 8 << 10,
        ..options()
    };
    let disk = SimulatedDisk::new(3);
    let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
    let mut random = Random::from_seed(seed(3));
    let many: Vec<Write> = (0..2_000)
        .map(|number| put(format!("{number:04}"), "v"))
        .collect();
    many.chunks(200)
        .for_each(|some| supersede(&mut store, some));
    let mut opened = 0;
    for round in 0..1_500 {
        let writes = writes(&mut random, &store.model);
        supersede(&mut store, &writes);
        let was_at_it = store.applier.is_maintaining();
        store.maintain().unwrap();
        if round % 10 == 0 || (was_at_it && !store.applier.is_maintaining()) {
            let copy = disk.fork().restart(Restart::ProcessCrash);
            let found = Store::open(&copy, options.clone(), Model::default()).unwrap();
            assert_eq!(
                state(&found.engine).0,
                state(&store.engine).0,
                "round {round}"
            );
            opened += u64::from(found.recovered.batches < store.index);
        }
    }
    assert!(store.engine.status().upkeep.checkpoints > 5);
    assert!(opened > 0, "some openings find a checkpoint");
}

/// A key that is written and deleted in one transaction, in either order.
fn twice(random: &mut Random) -> Vec<Write> {
    let key = format!("{:04}", random.below(8_000));
    let mut writes = vec![delete(&key), put(&key, "again")];
    if random.chance(1, 2) {
        writes.reverse();
    }
    writes
}

/// Opens a crashed store without history, and with history and a compaction: both find the same.
/// Returns whether a checkpoint was there.
fn opened_without_history(disk: &SimulatedDisk, options: &engine::Options, last: &[Write]) -> bool {
    // Once: a thread may be writing a checkpoint.
    let crashed = disk.fork().restart(Restart::ProcessCrash);
    let found = [true, false].map(|state_hash| {
        let options = engine::Options {
            state_hash,
            ..options.clone()
        };
        compare_openings(&crashed, &options, last)
    });
    assert_eq!(found[0], found[1]);
    found[0]
}

fn compare_openings(crashed: &SimulatedDisk, options: &engine::Options, last: &[Write]) -> bool {
    let open = |keeps_history| {
        let disk = crashed.fork();
        let options = engine::Options {
            keeps_history,
            ..options.clone()
        };
        let mut store = Store::open(&disk, options, Model::default()).unwrap();
        let revision = store.engine.status().revision;
        if keeps_history && revision > 1 {
            store.applier.compact(revision);
        }
        store.applier.finish_compaction();
        store
    };
    let (with, without) = (open(true), open(false));
    let (expected, found) = (state(&with.engine), state(&without.engine));
    assert_eq!(found.0, expected.0);
    let keys = |store: &Store| store.engine.state_hash().map(|hash| hash.keys);
    assert_eq!(keys(&with), keys(&without));
    let deletes = last.iter().any(|write| matches!(write, Write::Delete(_)));
    // A compaction keeps what was deleted at its own revision, for watches.
    if !deletes {
        assert_eq!(found.1, expected.1);
    }
    assert!(without.recovered.entries.is_empty());
    assert_eq!(without.recovered.base, (without.index, 1));
    assert_eq!(with.recovered.batches, without.recovered.batches);
    without.recovered.batches < without.index
}

#[test]
fn an_opening_without_history_finds_what_one_with_a_compaction_finds() {
    let options = engine::Options {
        checkpoint_bytes: 8 << 10,
        ..options()
    };
    for number in 0..4 {
        let disk = SimulatedDisk::new(number);
        let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
        let (mut random, mut found_a_checkpoint) = (Random::from_seed(seed(number)), 0);
        // Several blocks of a checkpoint, so that some are gathered later than others.
        let many: Vec<Write> = (0..8_000)
            .map(|number| put(format!("{number:04}"), "v"))
            .collect();
        many.chunks(200)
            .for_each(|some| supersede(&mut store, some));
        for round in 0..600 {
            let writes = match random.below(10) {
                0 => twice(&mut random),
                _ => writes(&mut random, &store.model),
            };
            // While a snapshot is held, versions that are replaced stay.
            match number % 2 == 1 && random.chance(1, 4) {
                true => store.write(&writes).unwrap(),
                false => supersede(&mut store, &writes),
            }
            let was_at_it = store.applier.is_maintaining();
            store.maintain().unwrap();
            if round % 30 == 0 || (was_at_it && !store.applier.is_maintaining()) {
                let found = opened_without_history(&disk, &options, &writes);
                found_a_checkpoint += u64::from(found);
            }
        }
        // More changes behind a checkpoint than are gathered at once.
        for _ in 0..1_000 {
            let writes = writes(&mut random, &store.model);
            supersede(&mut store, &writes);
        }
        let last = [put("00", "last")];
        supersede(&mut store, &last);
        opened_without_history(&disk, &options, &last);
        assert!(found_a_checkpoint > 10, "{found_a_checkpoint}");
    }
}
