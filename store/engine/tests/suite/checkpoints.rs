//! When checkpoints are due.

use crate::store;

use engine::Options;
use environment::simulated::SimulatedDisk;
use store::model::Model;
use store::{Store, options, put};

fn open(disk: &SimulatedDisk) -> Store {
    let options = Options {
        log: engine::LogOptions {
            segment_bytes: 1 << 20,
            ..options().log
        },
        checkpoint_bytes: 4096,
        ..options()
    };
    // The model would be slow with this many keys, and is not used.
    Store::open(disk, options, Model::default()).unwrap()
}

/// Writes `bytes` of log and maintains the store after every 4 KiB or so; returns
/// the number of checkpoints written.
fn grow(store: &mut Store, bytes: u64) -> u64 {
    let before = store.engine.status();
    loop {
        let mut model = Model::default();
        model.revision = store.engine.snapshot().revision();
        store.model = model;
        store.write(&[put("k", [7; 4000])]).unwrap();
        store.maintain().unwrap();
        while store.applier.is_maintaining() {
            std::thread::yield_now();
            store.maintain().unwrap();
        }
        let now = store.engine.status();
        if now.log.bytes_written - before.log.bytes_written >= bytes {
            return now.upkeep.checkpoints - before.upkeep.checkpoints;
        }
    }
}

#[test]
fn a_checkpoint_is_due_when_the_log_has_grown_by_half_more_than_the_last_one_took() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk);
    assert!(grow(&mut store, 40_000) >= 5, "a small one, every 4 KiB");
    let many: Vec<_> = (0..2500_u32)
        .map(|number| put([number.to_be_bytes(), [9; 4]].concat(), "x"))
        .collect();
    for some in many.chunks(100) {
        store.write(some).unwrap();
    }
    store.checkpoint().unwrap();
    let file_bytes = store.engine.status().upkeep.checkpoint_bytes;
    assert!((28_000..40_000).contains(&file_bytes), "{file_bytes}");
    for _ in 0..2 {
        assert_eq!(grow(&mut store, 30_000), 0);
        assert!((1..=2).contains(&grow(&mut store, 60_000)));
        drop(store);
        // The size of the last one is known after a restart, too.
        store = open(&disk);
        store.checkpoint().unwrap();
        drop(store);
        store = open(&disk);
    }
}

/// A store with checkpoints that are not due in this test.
#[test]
fn a_checkpoint_holds_the_empty_key() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    for writes in [&[put("", "1")][..], &[put("", "2"), put("a", "1")]] {
        store.write(writes).unwrap();
    }
    store.checkpoint().unwrap();
    store.check_all();
    let mut store = store.reopen(&disk);
    store.check_all();
    assert_eq!(store.engine.snapshot().keys(), 2);
}

fn open_with_rare_checkpoints(disk: &SimulatedDisk) -> Store {
    let options = Options {
        log: engine::LogOptions {
            segment_bytes: 1 << 20,
            ..options().log
        },
        checkpoint_bytes: 128 << 20,
        ..options()
    };
    Store::open(disk, options, Model::default()).unwrap()
}

fn write(store: &mut Store, bytes: usize) {
    const VALUE_BYTES: usize = 20_000;
    for _ in 0..bytes.div_ceil(VALUE_BYTES) {
        store.write(&[put("k", [7; VALUE_BYTES])]).unwrap();
    }
}

/// Checkpoints that are written before the store is closed.
fn checkpoints_before_the_end(store: &mut Store) -> u64 {
    let before = store.engine.status().upkeep.checkpoints;
    let state = store.state();
    let written = store.applier.checkpoint_for_opening(&mut || state.clone());
    written.unwrap();
    store.engine.status().upkeep.checkpoints - before
}

#[test]
fn the_end_of_a_store_writes_a_checkpoint_if_much_of_the_log_would_be_replayed() {
    let disk = SimulatedDisk::new(2);
    let mut store = open_with_rare_checkpoints(&disk);
    write(&mut store, 1 << 20);
    assert_eq!(checkpoints_before_the_end(&mut store), 0);
    write(&mut store, 4 << 20);
    assert_eq!(checkpoints_before_the_end(&mut store), 1);
    assert_eq!(
        checkpoints_before_the_end(&mut store),
        0,
        "nothing was written since"
    );
    let model = store.model.clone();
    drop(store);
    let disk = disk.restart(environment::simulated::Restart::ProcessCrash);
    let mut store = open_with_rare_checkpoints(&disk);
    assert_eq!(store.recovered.batches, 0, "nothing is replayed");
    store.model = model;
    store.check_reads();
}

#[test]
fn the_end_of_a_store_on_a_failed_device_writes_no_checkpoint() {
    let disk = SimulatedDisk::new(3);
    let mut store = open_with_rare_checkpoints(&disk);
    write(&mut store, 5 << 20);
    // The thread that makes segments may flush first.
    let has_failed = (0..1_000).any(|_| {
        disk.inject(disk.io_count(), environment::simulated::Fault::FailedFlush);
        store.write(&[put("k", "v")]).is_err()
    });
    assert!(has_failed, "no write met a failed flush");
    assert_eq!(checkpoints_before_the_end(&mut store), 0);
}

#[test]
fn the_end_of_a_store_makes_up_for_a_checkpoint_that_failed() {
    let disk = SimulatedDisk::new(4);
    let mut store = open_with_rare_checkpoints(&disk);
    write(&mut store, 5 << 20);
    disk.set_capacity(0);
    store.checkpoint().unwrap_err();
    disk.set_capacity(1 << 30);
    assert_eq!(checkpoints_before_the_end(&mut store), 1);
}

#[test]
fn a_store_that_is_closed_already_leaves_its_directory_alone() {
    let disk = SimulatedDisk::new(5);
    let mut store = open_with_rare_checkpoints(&disk);
    write(&mut store, 5 << 20);
    store.applier.close().unwrap();
    let before = disk.io_count();
    assert_eq!(checkpoints_before_the_end(&mut store), 0);
    assert_eq!(disk.io_count(), before);
}
