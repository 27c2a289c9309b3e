//! When checkpoints are due.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod store;

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
fn a_checkpoint_is_due_when_the_log_has_grown_by_as_much_as_the_last_one_took() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk);
    assert!(grow(&mut store, 40_000) >= 5, "a small one, every 4 KiB");
    let many: Vec<_> = (0..2000_u32)
        .map(|number| put([number.to_be_bytes(), [9; 4]].concat(), "x"))
        .collect();
    for some in many.chunks(100) {
        store.write(some).unwrap();
    }
    store.checkpoint().unwrap();
    let file_bytes = store.engine.status().upkeep.checkpoint_bytes;
    assert!(file_bytes > 40_000, "{file_bytes}");
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
