//! A compaction does not stop writes or reads: its versions are dropped in slices.

use crate::store;

use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use store::{Store, Write, delete, put};

/// What one step of maintenance may look at.
const SLICE: u64 = 1024;

/// Keys with a few versions each, some deleted, one with very many.
fn fill(store: &mut Store, random: &mut Random, transactions: u64) {
    for _ in 0..transactions {
        let mut writes: Vec<Write> = vec![put("busy", [1; 9])];
        for number in 0..100_u8 {
            let key = [b'k', number];
            let alive = store.model.visible(&key, store.model.revision).is_some();
            if alive && random.chance(1, 10) {
                writes.push(delete(key));
            } else if random.chance(1, 2) {
                writes.push(put(key, [number; 3]));
            }
        }
        store.write(&writes).unwrap();
    }
}

/// Steps until the sweep is through; asks in between.
fn sweep(store: &mut Store, mut look: impl FnMut(&mut Store)) -> u64 {
    let mut steps = 0;
    while store.applier.is_sweeping() {
        store.maintain().unwrap();
        look(store);
        steps += 1;
    }
    steps
}

#[test]
fn a_compaction_drops_a_slice_at_a_time_and_shows_nothing_of_it() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    fill(&mut store, &mut Random::from_seed(1), 80);
    let before = store.engine.status().versions;
    assert!(before > 3 * SLICE);
    store.begin_compaction(store.model.revision - 3).unwrap();
    assert_eq!(store.engine.snapshot().compacted(), store.model.compacted);
    assert_eq!(store.engine.status().versions, before, "nothing yet");
    let mut left = before;
    let steps = sweep(&mut store, |store| {
        let now = store.engine.status().versions;
        assert!(left - now <= SLICE, "{left} to {now} in one step");
        left = now;
        store.check_reads();
        store.check_hash(store.model.compacted);
    });
    assert!(steps > before / SLICE, "{steps} steps");
    let status = store.engine.status();
    assert!(status.upkeep.swept_versions >= before - status.versions);
    store.check_kept();
}

#[test]
fn writes_and_further_compactions_go_on_beside_a_sweep() {
    let disk = SimulatedDisk::new(2);
    let mut store = Store::new(&disk);
    let mut random = Random::from_seed(2);
    fill(&mut store, &mut random, 60);
    store.begin_compaction(40).unwrap();
    for _ in 0..20 {
        fill(&mut store, &mut random, 1);
        let revision = store.model.revision - 2;
        store.begin_compaction(revision).unwrap();
        store.maintain().unwrap();
        assert!(store.applier.swept() <= store.model.compacted);
    }
    assert!(
        store.applier.swept() >= 40,
        "a sweep ends although others wait"
    );
    sweep(&mut store, |_| {});
    assert_eq!(store.applier.swept(), store.model.compacted);
    store.check_all();
}

#[test]
fn a_sweep_cut_short_starts_over_after_a_restart() {
    for checkpointed in [false, true] {
        let disk = SimulatedDisk::new(3);
        let mut store = Store::new(&disk);
        fill(&mut store, &mut Random::from_seed(3), 80);
        store.begin_compaction(store.model.revision - 1).unwrap();
        for _ in 0..4 {
            store.maintain().unwrap();
        }
        assert!(store.applier.is_sweeping());
        if checkpointed {
            store.checkpoint().unwrap();
        }
        let mut store = store.reopen(&disk);
        assert!(store.applier.is_sweeping());
        assert_eq!(store.applier.swept(), -1);
        store.check_reads();
        sweep(&mut store, |_| {});
        store.check_kept();
        store.check_all();
    }
}

/// Every step begins another compaction, and no step finishes a sweep.
#[test]
fn garbage_is_copied_away_although_a_sweep_is_always_under_way() {
    let disk = SimulatedDisk::new(5);
    let mut store = Store::new(&disk);
    let mut round = 0_u32;
    while store.engine.status().upkeep.relocated_bytes == 0 {
        // A survivor among much that dies: no segment dies by itself.
        store.write(&[put(round.to_be_bytes(), [1; 300])]).unwrap();
        store.write(&[put("busy", [2; 3000])]).unwrap();
        store.begin_compaction(store.model.revision).unwrap();
        store.maintain().unwrap();
        assert!(store.applier.is_sweeping());
        assert!(store.engine.status().log_bytes < 16 << 20, "{round} rounds");
        round += 1;
    }
    sweep(&mut store, |_| {});
    store.check_all();
}

#[test]
fn defragment_does_not_wait_for_the_sweep() {
    let disk = SimulatedDisk::new(4);
    let mut store = Store::new(&disk);
    fill(&mut store, &mut Random::from_seed(4), 60);
    store.begin_compaction(store.model.revision).unwrap();
    store.defragment().unwrap();
    assert!(!store.applier.is_sweeping());
    let status = store.engine.status();
    assert!(status.log_bytes < 64 << 10, "{status:?}");
    store.check_all();
}
