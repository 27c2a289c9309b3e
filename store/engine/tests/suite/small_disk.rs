//! Giving back on a disk that is small, nearly full, or full to the last byte.

use crate::store;

use engine::{Error, Options, Worker};
use environment::Disk;
use environment::simulated::{SimulatedClock, SimulatedDisk};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::model::Model;
use store::{DIRECTORY, Store, delete, options, put};

/// EMFILE of Linux.
const NO_DESCRIPTOR: i32 = 24;

fn free_bytes(disk: &SimulatedDisk) -> u64 {
    disk.space(Path::new(DIRECTORY)).unwrap().available_bytes
}

/// A thousandth of the defaults, on a thousandth of 365 MB.
fn small() -> Options {
    Options {
        log: engine::LogOptions {
            spare_segments: 2,
            reserve_bytes: 64 << 10,
            worker: Worker::Caller,
            ..options().log
        },
        ..options()
    }
}

fn write_all(store: &mut Store, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let value = vec![number as u8; 900];
        store
            .write(&[put(format!("key{number:04}"), value)])
            .unwrap();
    }
}

/// Everything that the disk takes; returns how many keys there are.
fn fill(store: &mut Store) -> u32 {
    let refused = (0..10_000u32).find_map(|number| {
        let value = vec![number as u8; 900];
        let outcome = store.write(&[put(format!("key{number:04}"), value)]);
        outcome.err().map(|error| (number, error))
    });
    let (keys, error) = refused.expect("the disk is full at some time");
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    keys
}

#[test]
fn the_reserve_of_a_small_disk_is_a_part_of_it() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(365 << 10);
    let mut store = Store::open(&disk, small(), Model::default()).unwrap();
    let keys = fill(&mut store);
    // Four of five segments were filled: 64 KiB and a sixteenth of 365 KiB are left.
    assert!(keys > 180, "{keys} keys");
    let free = free_bytes(&disk);
    assert!(free >= 365 << 6, "{free}");
}

#[test]
fn defragment_on_a_small_disk_takes_no_room() {
    for kept in [36u32, 72, 108] {
        let disk = SimulatedDisk::new(kept.into());
        disk.set_capacity(365 << 10);
        let mut store = Store::open(&disk, small(), Model::default()).unwrap();
        write_all(&mut store, 0..130);
        let before = free_bytes(&disk);
        // Each segment keeps some.
        for number in 0..130 {
            if number * kept / 130 == (number + 1) * kept / 130 {
                store.write(&[delete(format!("key{number:04}"))]).unwrap();
            }
        }
        store.compact(store.model.revision).unwrap();
        store.defragment().unwrap();
        let after = free_bytes(&disk);
        // Beside these segments the index is large: there may be room for its checkpoint only.
        let checkpoint = 16 << 10;
        assert!(
            after + checkpoint >= before,
            "{kept} of 130 kept: {before} became {after}"
        );
        store.check_all();
        let mut store = store.reopen(&disk);
        store.check_all();
    }
}

#[test]
fn with_no_byte_free_garbage_is_given_back() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(365 << 10);
    let mut store = Store::open(&disk, small(), Model::default()).unwrap();
    write_all(&mut store, 0..130);
    for number in 0..120 {
        store.write(&[delete(format!("key{number:04}"))]).unwrap();
    }
    // Another program has the rest.
    let used = (365 << 10) - free_bytes(&disk);
    disk.set_capacity(used);
    assert_eq!(free_bytes(&disk), 0);
    store.compact(store.model.revision).unwrap();
    store.defragment().unwrap();
    assert!(free_bytes(&disk) >= 64 << 10, "{}", free_bytes(&disk));
    store.check_all();
    disk.set_capacity(365 << 10);
    write_all(&mut store, 0..50);
    let mut store = store.reopen(&disk);
    store.check_all();
}

#[test]
fn upkeep_that_failed_for_want_of_a_descriptor_is_done_later_without_new_writes() {
    let disk = SimulatedDisk::new(1);
    let clock = SimulatedClock::stepped();
    let options = Options {
        log: engine::LogOptions {
            worker: Worker::Caller,
            ..options().log
        },
        clock: Arc::new(clock.clone()),
        ..options()
    };
    let mut store = Store::open(&disk, options, Model::default()).unwrap();
    for round in 0..20u8 {
        for number in 0..20u8 {
            store
                .write(&[put([b'k', number], vec![round; 2000])])
                .unwrap();
        }
    }
    store.compact(store.model.revision).unwrap();
    let full = store.engine.status();
    disk.fail_opens(Some(NO_DESCRIPTOR));
    let mut failures = 0;
    for _ in 0..100 {
        failures += u32::from(store.maintain().is_err());
    }
    assert_eq!(failures, 1, "it is not tried all the time");
    assert_eq!(store.engine.status().log.failed, None);
    assert_eq!(store.engine.status().upkeep.released_segments, 0);
    disk.fail_opens(None);
    for _ in 0..100 {
        clock.advance(Duration::from_secs(1));
        store.maintain().unwrap();
    }
    let small = store.engine.status();
    assert!(small.segments < full.segments / 2, "{full:?}\n{small:?}");
    store.check_all();
    let mut store = store.reopen(&disk);
    store.check_all();
}
