//! Behaviour at the limits: memory, disk, sizes.

use crate::store;

use bytes::Bytes;
use engine::{Batch, Change, Error, Options};
use environment::simulated::SimulatedDisk;
use store::model::Model;
use store::{Store, delete, options, put};

#[test]
fn at_the_memory_limit_puts_are_refused_and_deletes_pass() {
    let disk = SimulatedDisk::new(1);
    let options = Options {
        memory_bytes_max: 100_000,
        ..options()
    };
    let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
    let error = (0..10_000u32)
        .find_map(|number| {
            store
                .write(&[put(format!("key number {number:08}"), "v")])
                .err()
        })
        .expect("the limit is met");
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    store.check_kept();
    let keys = store.model.keys_now();
    assert!(keys.len() > 500, "{}", keys.len());
    for key in &keys[..keys.len() - 10] {
        store.write(&[delete(key)]).unwrap();
    }
    store.compact(store.model.revision).unwrap();
    store.write(&[put("room again", "v")]).unwrap();
}

#[test]
fn a_full_disk_refuses_puts_and_reads_go_on_and_deleting_makes_room() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(2 << 20);
    let options = Options {
        log: engine::LogOptions {
            reserve_bytes: 256 << 10,
            ..options().log
        },
        ..options()
    };
    let mut store = Store::open(&disk, options, Model::default()).unwrap();
    let error = (0..5000u32)
        .find_map(|number| {
            store
                .write(&[put(format!("key{:03}", number % 100), vec![7; 1000])])
                .err()
        })
        .expect("the disk is full at some time");
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert_eq!(
        store.range(&[], None, store.model.revision),
        store.model.range(&[], None, store.model.revision)
    );
    store.write(&[delete("key001")]).unwrap();
    store.compact(store.model.revision).unwrap();
    store.defragment().unwrap();
    for number in 0..50u32 {
        store
            .write(&[put(format!("new{number}"), vec![8; 1000])])
            .unwrap();
    }
    store.check_kept();
    let store = store.reopen(&disk);
    store.check_kept();
}

#[test]
fn a_batch_that_never_fits_is_refused_with_its_size() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let error = store.write(&[put("big", vec![1; 40 << 10])]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                batch_bytes_max: 32768,
                ..
            }
        ),
        "{error}"
    );
    store.write(&[put("small", "fits")]).unwrap();
    store.check_all();
}

#[test]
fn a_large_value_with_a_coarse_size_class_comes_back() {
    let disk = SimulatedDisk::new(1);
    let options = Options {
        log: engine::LogOptions {
            segment_bytes: 8 << 20,
            ..options().log
        },
        batch_bytes_max: 4 << 20,
        ..options()
    };
    let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
    for bytes in [262_000, 262_100, 300_001, 1_572_864] {
        store
            .write(&[put(format!("{bytes}"), vec![bytes as u8; bytes])])
            .unwrap();
    }
    let at = store.model.revision;
    assert_eq!(store.range(&[], None, at), store.model.range(&[], None, at));
    store.compact(at).unwrap();
    store.defragment().unwrap();
    assert_eq!(store.range(&[], None, at), store.model.range(&[], None, at));
}

#[test]
fn malformed_batches_are_refused_before_anything_is_written() {
    let disk = SimulatedDisk::new(1);
    let store = Store::new(&disk);
    let mut gap = store.batch(&[put("a", "1"), put("b", "2")]);
    if let Change::Key(change) = &mut gap.changes[1] {
        change.revision.main += 5;
    }
    let mut foreign_key = store.batch(&[put("a", "1")]);
    if let Change::Key(change) = &mut foreign_key.changes[0] {
        change.key = Bytes::from_static(b"not in the value");
    }
    let empty = Batch {
        term: 1,
        index: 1,
        changes: Vec::new(),
    };
    let written = store.engine.status().log.groups;
    for batch in [gap, foreign_key, empty] {
        let error = store.engine.append(&batch).unwrap_err();
        assert!(matches!(error, Error::InvalidBatch { .. }), "{error}");
    }
    assert_eq!(store.engine.status().log.groups, written);
}
