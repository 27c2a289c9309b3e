//! Defragmentation in the order of keys.

use crate::store;

use engine::{Durability, Error, LogOptions, Options};
use environment::Disk;
use environment::randomness::Random;
use environment::simulated::{Fault, SimulatedDisk};
use std::path::Path;
use store::model::Model;
use store::{DIRECTORY, SEGMENT_HEADER_BYTES, Store, Write, put};

/// A segment has room for many pieces in order, and few gaps between frames.
fn options() -> Options {
    Options {
        log: LogOptions {
            segment_bytes: 1 << 20,
            durability: Durability::Os,
            ..store::options().log
        },
        batch_bytes_max: 256 << 10,
        ..store::options()
    }
}

fn with_small_segments() -> Options {
    let mut options = options();
    options.log.segment_bytes = 64 << 10;
    options.batch_bytes_max = 32 << 10;
    options
}

fn open(disk: &SimulatedDisk) -> Store {
    Store::open(disk, options(), Model::default()).unwrap()
}

/// Puts of keys in random order, some in each transaction: `keys` of them.
fn load(store: &mut Store, keys: u64) {
    let mut random = Random::from_seed(store::seed(keys));
    let mut order: Vec<u64> = (0..keys).collect();
    for end in (1..order.len()).rev() {
        order.swap(end, random.below(end as u64 + 1) as usize);
    }
    for some in order.chunks(50) {
        let writes: Vec<Write> = some
            .iter()
            .map(|&number| put(key(number), value(number)))
            .collect();
        store.write(&writes).unwrap();
    }
}

fn key(number: u64) -> String {
    format!("k{number:05}")
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 400]
}

/// Does the steps of a walk until it ends; writes between them if asked to.
fn walk(store: &mut Store, writes: bool) -> Result<(), Error> {
    store.applier.begin_defragmentation_in_key_order();
    let mut round = 0;
    while store.applier.is_defragmenting() {
        if writes {
            store.write(&[put(key(round % 100 * 7), format!("again {round}"))])?;
            round += 1;
        }
        store.maintain()?;
        std::thread::yield_now();
    }
    Ok(())
}

/// Bytes that a walk copies.
fn walked_bytes(store: &mut Store) -> u64 {
    let before = copied_bytes(store);
    walk(store, false).unwrap();
    copied_bytes(store) - before
}

fn copied_bytes(store: &Store) -> u64 {
    store.engine.status().upkeep.relocated_bytes
}

/// Live bytes of records.
fn live_bytes(store: &Store) -> u64 {
    let status = store.engine.status();
    status.live_bytes - status.segments as u64 * SEGMENT_HEADER_BYTES
}

fn compact_to_the_end(store: &mut Store) {
    store.compact(store.model.revision).unwrap();
}

/// The pairs in the order of their keys, as short as `check_all` is long.
fn assert_loaded(store: &Store, keys: u64) {
    let kvs: Vec<_> = (0..keys)
        .map(|number| store::encode(key(number).as_bytes(), &value(number)))
        .collect();
    assert!(store.range(b"k", Some(b"l"), i64::MAX) == kvs);
}

/// The puts of `numbers` in one transaction.
fn write_some(store: &mut Store, numbers: impl Iterator<Item = u64>) {
    let writes: Vec<Write> = numbers
        .map(|number| put(key(number), value(number)))
        .collect();
    store.write(&writes).unwrap();
}

/// A store of this number of keys in random order, all of them in one checkpoint.
fn loaded(disk: &SimulatedDisk, keys: u64) -> Store {
    let mut store = open(disk);
    load(&mut store, keys);
    compact_to_the_end(&mut store);
    store.checkpoint().unwrap();
    store
}

/// The log has hardly anything besides the records that are alive.
fn assert_is_small(store: &Store) {
    let (used, live) = (store.engine.status().log_bytes, live_bytes(store));
    assert!(used < live + live / 20, "{used} bytes for {live}");
}

fn used_bytes(disk: &SimulatedDisk) -> u64 {
    let space = disk.space(Path::new(DIRECTORY)).unwrap();
    space.total_bytes - space.available_bytes
}

#[test]
fn versions_out_of_order_are_copied_once_and_the_segments_before_are_released() {
    const KEYS: u64 = 12_000;
    let disk = SimulatedDisk::new(1);
    let mut store = loaded(&disk, KEYS);
    let live = live_bytes(&store);
    // More than a round of four segments.
    assert!(live > 5 << 20, "{live}");
    let checkpoints = store.engine.status().upkeep.checkpoints;
    walk(&mut store, false).unwrap();
    let status = store.engine.status();
    assert_eq!(copied_bytes(&store), live, "each version is copied once");
    assert_is_small(&store);
    assert_eq!(status.upkeep.checkpoints, checkpoints + 1);
    assert_loaded(&store, KEYS);
    drop(store);
    let store = open(&disk);
    assert_loaded(&store, KEYS);
    assert_is_small(&store);
}

#[test]
fn segments_with_history_that_is_not_compacted_are_released_when_nothing_points_into_them() {
    const KEYS: u64 = 12_000;
    let disk = SimulatedDisk::new(11);
    let mut store = open(&disk);
    load(&mut store, KEYS);
    walk(&mut store, false).unwrap();
    assert_is_small(&store);
    assert_loaded(&store, KEYS);
    drop(store);
    assert_loaded(&open(&disk), KEYS);
}

#[test]
fn a_few_versions_that_were_overwritten_are_copied_once() {
    const KEYS: u64 = 6_000;
    let disk = SimulatedDisk::new(12);
    let mut store = loaded(&disk, KEYS);
    walk(&mut store, false).unwrap();
    write_some(&mut store, (0..20).map(|number| number * 100));
    compact_to_the_end(&mut store);
    let before = copied_bytes(&store);
    for _ in 0..3 {
        walk(&mut store, false).unwrap();
    }
    let copied = copied_bytes(&store) - before;
    assert!(copied < live_bytes(&store) / 10, "{copied} bytes");
    let before = store.engine.status().upkeep;
    walk(&mut store, false).unwrap();
    let upkeep = store.engine.status().upkeep;
    assert_eq!(upkeep.relocated_bytes, before.relocated_bytes);
    assert_eq!(upkeep.checkpoints, before.checkpoints);
    assert_loaded(&store, KEYS);
}

#[test]
fn a_long_walk_saves_its_copies_before_its_end() {
    const KEYS: u64 = 9_000;
    let disk = SimulatedDisk::new(13);
    let mut store = Store::open(&disk, with_small_segments(), Model::default()).unwrap();
    load(&mut store, KEYS);
    compact_to_the_end(&mut store);
    store.checkpoint().unwrap();
    let before = store.engine.status().upkeep.checkpoints;
    walk(&mut store, false).unwrap();
    let checkpoints = store.engine.status().upkeep.checkpoints - before;
    // Sixteen segments are a MiB.
    let live = live_bytes(&store);
    assert!(
        live > 3 << 20 && checkpoints >= 3,
        "{checkpoints} for {live}"
    );
    assert_loaded(&store, KEYS);
}

#[test]
fn checkpoints_and_other_defragmentations_that_are_asked_for_during_a_walk_do_not_spoil_it() {
    const KEYS: u64 = 12_000;
    let disk = SimulatedDisk::new(14);
    for stage in 0..6 {
        let disk = disk.fork();
        let mut store = loaded(&disk, KEYS);
        store.applier.begin_defragmentation_in_key_order();
        for _ in 0..stage {
            store.maintain().unwrap();
        }
        store.checkpoint().unwrap();
        store.applier.begin_defragmentation();
        for _ in 0..stage {
            store.maintain().unwrap();
        }
        walk(&mut store, false).unwrap();
        assert_is_small(&store);
        assert_loaded(&store, KEYS);
        // A copy that ran when the walk began was in order as well: windows at the ends of its segments
        // are joined, and segments that have lost these are copied.
        let walks = (1..10).find(|_| walked_bytes(&mut store) == 0);
        assert!(walks.is_some(), "versions are moved again and again");
    }
}

#[test]
fn a_walk_behind_another_copies_nothing_and_writes_no_checkpoint() {
    const KEYS: u64 = 12_000;
    let disk = SimulatedDisk::new(7);
    let mut store = loaded(&disk, KEYS);
    let live = live_bytes(&store);
    walk(&mut store, false).unwrap();
    // Windows at the ends of segments are in two pieces, which are joined.
    let joined = walked_bytes(&mut store);
    assert!(joined < live / 8, "{joined} of {live}");
    drop(store);
    // An opening knows the order.
    let mut store = open(&disk);
    let before = store.engine.status().upkeep;
    walk(&mut store, false).unwrap();
    let upkeep = store.engine.status().upkeep;
    assert_eq!(upkeep.relocated_bytes, before.relocated_bytes);
    assert_eq!(upkeep.checkpoints, before.checkpoints);
    assert_loaded(&store, KEYS);
}

#[test]
fn versions_that_were_written_in_order_stay_where_they_are() {
    const KEYS: u64 = 6_000;
    let disk = SimulatedDisk::new(2);
    let mut store = open(&disk);
    for first in (0..KEYS).step_by(500) {
        write_some(&mut store, first..first + 500);
    }
    compact_to_the_end(&mut store);
    let live = live_bytes(&store);
    walk(&mut store, false).unwrap();
    // The records of the last segment are in one stretch as well.
    assert_eq!(copied_bytes(&store), 0, "of {live}");
    assert_loaded(&store, KEYS);
}

#[test]
fn of_a_map_in_order_only_what_was_overwritten_is_copied() {
    const KEYS: u64 = 12_000;
    let disk = SimulatedDisk::new(8);
    let mut store = loaded(&disk, KEYS);
    let live = live_bytes(&store);
    walk(&mut store, false).unwrap();
    let before = copied_bytes(&store);
    // One of 50, so that the segments in order stay full.
    write_some(&mut store, (0..KEYS / 50).map(|number| number * 50));
    compact_to_the_end(&mut store);
    walk(&mut store, false).unwrap();
    let copied = copied_bytes(&store) - before;
    assert!(copied >= live / 50, "{copied} of {live}");
    assert!(copied < live / 5, "{copied} of {live}");
    assert_loaded(&store, KEYS);
}

#[test]
fn writes_between_the_steps_are_kept_and_so_is_history_that_is_not_compacted() {
    let disk = SimulatedDisk::new(3);
    let mut store = open(&disk);
    load(&mut store, 300);
    compact_to_the_end(&mut store);
    let from = store.model.revision;
    for number in 0..200_u64 {
        store
            .write(&[put(key(number * 13 % 300), [number as u8; 300])])
            .unwrap();
    }
    walk(&mut store, true).unwrap();
    store.check_all();
    store.check_history(from);
    let model = store.model.clone();
    drop(store);
    let mut store = Store::open(&disk, options(), model).unwrap();
    store.check_all();
    store.check_history(from);
}

/// More is written between two steps of the walk than a segment holds.
#[test]
fn garbage_that_is_made_during_a_walk_is_collected_during_it() {
    const KEYS: u64 = 2_000;
    let disk = SimulatedDisk::new(9);
    let mut store = Store::open(&disk, with_small_segments(), Model::default()).unwrap();
    load(&mut store, KEYS);
    compact_to_the_end(&mut store);
    let live = live_bytes(&store);
    store.applier.begin_defragmentation_in_key_order();
    let (mut written, mut most_used) = (0, 0);
    while store.applier.is_defragmenting() {
        for first in (0..800).step_by(50) {
            write_some(&mut store, first..first + 50);
            written += 50 * 450;
        }
        compact_to_the_end(&mut store);
        store.maintain().unwrap();
        most_used = most_used.max(store.engine.status().log_bytes);
        // The piece that has begun ends before more is written.
        while store.applier.is_defragmenting() && !store.applier.has_a_step_to_do() {
            store.maintain().unwrap();
            std::thread::yield_now();
        }
    }
    assert!(written > 2 * live, "{written} bytes");
    let two_copies_and_half = 2 * live + written / 2;
    assert!(most_used < two_copies_and_half, "{most_used} bytes");
    assert_loaded(&store, KEYS);
}

#[test]
fn a_disk_without_room_for_the_copies_is_refused_and_garbage_is_collected_all_the_same() {
    const KEYS: u64 = 12_000;
    let disk = SimulatedDisk::new(4);
    let mut store = loaded(&disk, KEYS);
    // Garbage in each segment, fewer than half of the records.
    for first in (0..KEYS).step_by(500) {
        write_some(&mut store, (first..first + 500).step_by(3));
    }
    compact_to_the_end(&mut store);
    store.checkpoint().unwrap();
    let live = live_bytes(&store);
    disk.set_capacity(used_bytes(&disk) + live);
    let segments = store.engine.status().segments;
    let refused = walk(&mut store, false).unwrap_err();
    assert!(matches!(refused, Error::NoRoomForCopy { .. }), "{refused}");
    assert!(!store.applier.is_defragmenting());
    assert!(store.engine.status().segments < segments);
    assert_loaded(&store, KEYS);
    disk.set_capacity(u64::MAX);
    walk(&mut store, false).unwrap();
    assert_loaded(&store, KEYS);
}

#[test]
fn room_that_ends_during_a_walk_ends_it_and_the_copies_count_for_the_next_one() {
    const KEYS: u64 = 20_000;
    let disk = SimulatedDisk::new(10);
    let mut store = loaded(&disk, KEYS);
    let live = live_bytes(&store);
    store.applier.begin_defragmentation_in_key_order();
    // The first round, of four segments, has ended when there are more copies.
    while copied_bytes(&store) < 9 << 19 {
        store.maintain().unwrap();
    }
    disk.set_capacity(used_bytes(&disk) + (1 << 20));
    let refused = loop {
        if let Err(error) = store.maintain() {
            break error;
        }
        assert!(store.applier.is_defragmenting(), "it ends with an error");
    };
    let is_full = matches!(refused, Error::NoRoomForCopy { .. });
    assert!(is_full || refused.shortage().is_some(), "{refused}");
    assert_loaded(&store, KEYS);
    disk.set_capacity(u64::MAX);
    let copied = walked_bytes(&mut store);
    assert!(copied < live - (3 << 20), "{copied} of {live}");
    assert_loaded(&store, KEYS);
}

#[test]
fn a_walk_that_fails_anywhere_ends_with_its_error_and_loses_nothing() {
    const KEYS: u64 = 6_000;
    let disk = SimulatedDisk::new(5);
    let mut store = open(&disk);
    load(&mut store, KEYS);
    compact_to_the_end(&mut store);
    drop(store);
    let whole = disk.fork();
    let mut store = open(&whole);
    let begun = whole.io_count();
    walk(&mut store, false).unwrap();
    let ended = whole.io_count();
    drop(store);
    let mut failed = 0;
    for io in (begun..ended).step_by(3) {
        let disk = disk.fork();
        let mut store = open(&disk);
        disk.inject(io, Fault::ShortWrite { bytes: 100 });
        failed += u32::from(walk(&mut store, false).is_err());
        assert!(!store.applier.is_defragmenting());
        assert_loaded(&store, KEYS);
        drop(store);
        let store = open(&disk);
        assert_loaded(&store, KEYS);
    }
    assert!(failed > 3, "only {failed} walks met the fault");
}

/// A checkpoint that saves copies, or another one, is tried again later.
#[test]
fn a_failure_of_other_upkeep_does_not_end_a_walk() {
    const KEYS: u64 = 5_000;
    let disk = SimulatedDisk::new(15);
    let mut store = Store::open(&disk, with_small_segments(), Model::default()).unwrap();
    load(&mut store, KEYS);
    compact_to_the_end(&mut store);
    drop(store);
    let mut ended_well = 0;
    for io in (0..).step_by(11) {
        let disk = disk.fork();
        let mut store = Store::open(&disk, with_small_segments(), Model::default()).unwrap();
        let begun = disk.io_count();
        disk.inject(begun + io, Fault::ShortWrite { bytes: 100 });
        let outcome = walk(&mut store, false);
        assert_loaded(&store, KEYS);
        if disk.io_count() <= begun + io {
            break;
        }
        if outcome.is_ok() {
            let (used, live) = (store.engine.status().log_bytes, live_bytes(&store));
            assert!(used < live + live / 6, "{used} bytes for {live}");
            ended_well += 1;
        }
    }
    assert!(ended_well > 2, "{ended_well} walks");
}

#[test]
fn a_damaged_version_stays_and_all_others_are_moved() {
    const KEYS: u64 = 3_000;
    let disk = SimulatedDisk::new(6);
    let mut store = open(&disk);
    load(&mut store, KEYS);
    compact_to_the_end(&mut store);
    disk.flip_bit(&Path::new(DIRECTORY).join("00000001.log"), 20_000, 3);
    let live = live_bytes(&store);
    for _ in 0..2 {
        walk(&mut store, false).unwrap();
        let copied = copied_bytes(&store);
        assert!(
            copied > live / 10 * 9 && copied < live + live / 10,
            "{copied} of {live}"
        );
        let versions: Vec<_> = store.engine.snapshot().range(&[], None, i64::MAX).collect();
        let unreadable = versions.iter().filter(|it| store.engine.read(it).is_err());
        assert_eq!(unreadable.count(), 1);
        assert_eq!(versions.len() as u64, KEYS);
    }
}
