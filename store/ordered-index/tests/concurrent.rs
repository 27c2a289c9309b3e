//! Readers on other threads, while the writer goes on.

use environment::randomness::Random;
use environment::threads;
use ordered_index::{Fanout, IndexEntry, Reader, Snapshot, Writer, with_fanout};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const BATCHES: u64 = if cfg!(miri) { 40 } else { 20_000 };
const READERS: u64 = if cfg!(miri) { 2 } else { 4 };
const KEYS: u64 = if cfg!(miri) { 60 } else { 3_000 };

fn key(number: u64) -> Vec<u8> {
    format!("/registry/pods/{}/web-{number:06}", number % 7).into_bytes()
}

/// One batch: the same changes in both trees, every entry stamped with the mark.
fn change(writer: &mut Writer, random: &mut Random, mark: u64) {
    for _ in 0..1 + random.below(8) {
        let key = key(random.below(KEYS));
        if random.chance(2, 5) {
            let removed = writer.remove(0, &key);
            assert_eq!(removed, writer.remove(1, &key));
        } else {
            let entry = IndexEntry {
                value: mark,
                stamp: mark,
            };
            assert_eq!(writer.insert(0, &key, entry), writer.insert(1, &key, entry));
        }
    }
    writer.publish(mark);
}

/// Both trees are the same, no entry is younger than the mark, and the counts are the walk's.
fn verify(snapshot: &Snapshot) {
    let mut left = snapshot.cursor(0, Bound::Unbounded, Bound::Unbounded);
    let mut right = snapshot.cursor(1, Bound::Unbounded, Bound::Unbounded);
    let mut walked = 0;
    let mut last: Vec<u8> = Vec::new();
    while let Some((key, entry)) = left.next() {
        assert_eq!(
            right.next(),
            Some((key, entry)),
            "the trees differ at mark {}",
            snapshot.mark()
        );
        assert!(entry.stamp <= snapshot.mark(), "an entry from the future");
        assert!(walked == 0 || last.as_slice() < key, "keys out of order");
        last = key.to_vec();
        walked += 1;
    }
    assert_eq!(right.next(), None);
    assert_eq!(snapshot.len(0), walked);
    assert_eq!(snapshot.count(1, b"", None), walked);
}

fn read_until(reader: &Reader, stop: &AtomicBool, seed: u64) {
    let mut random = Random::from_seed(seed);
    let mut newest = 0;
    while !stop.load(Ordering::Relaxed) {
        let snapshot = reader.pin();
        assert!(snapshot.mark() >= newest, "time ran backwards");
        newest = snapshot.mark();
        verify(&snapshot);
        if random.chance(1, 4) {
            // The same state again, after the writer has moved on.
            std::thread::yield_now();
            verify(&snapshot);
        }
    }
}

#[test]
fn every_pinned_state_is_whole_and_stays_as_it_was() {
    let (mut writer, reader) = with_fanout(2, Fanout { leaf: 16, inner: 8 });
    let stop = Arc::new(AtomicBool::new(false));
    let start = |seed| {
        let (reader, stop) = (reader.clone(), Arc::clone(&stop));
        threads::spawn("reader", move || read_until(&reader, &stop, seed)).unwrap()
    };
    let readers: Vec<_> = (0..READERS).map(start).collect();
    let mut random = Random::from_seed(0);
    (1..=BATCHES).for_each(|mark| change(&mut writer, &mut random, mark));
    stop.store(true, Ordering::Relaxed);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    verify(&reader.pin());
    assert_eq!(reader.pin().mark(), BATCHES);
}

#[test]
fn writers_and_readers_move_between_threads() {
    fn moves<T: Send + Sync>() {}
    moves::<Writer>();
    moves::<Reader>();
}

#[test]
fn threads_take_turns_as_the_writer_and_another_one_ends_it() {
    let (writer, reader) = with_fanout(2, Fanout { leaf: 4, inner: 4 });
    let writer = Arc::new(Mutex::new((writer, 0)));
    let stop = Arc::new(AtomicBool::new(false));
    let reads = {
        let (reader, stop) = (reader.clone(), Arc::clone(&stop));
        threads::spawn("reader", move || read_until(&reader, &stop, 7)).unwrap()
    };
    let start = |seed| {
        let writer = Arc::clone(&writer);
        let turns = move || {
            let mut random = Random::from_seed(seed);
            for _ in 0..BATCHES / 4 {
                let mut guard = writer.lock().unwrap();
                let (writer, mark) = &mut *guard;
                *mark += 1;
                change(writer, &mut random, *mark);
                if random.chance(1, 4) {
                    writer.collect();
                }
            }
        };
        threads::spawn("writer", turns).unwrap()
    };
    let writers: Vec<_> = (10..14).map(start).collect();
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    reads.join().unwrap();
    let last = Arc::into_inner(writer).unwrap();
    threads::spawn("ends it", move || drop(last))
        .unwrap()
        .join()
        .unwrap();
    verify(&reader.pin());
    assert_eq!(reader.pin().mark(), BATCHES / 4 * 4);
}

#[test]
fn a_snapshot_outlives_writer_and_readers() {
    let (mut writer, reader) = with_fanout(2, Fanout { leaf: 4, inner: 4 });
    let mut random = Random::from_seed(1);
    (1..=20).for_each(|mark| change(&mut writer, &mut random, mark));
    let snapshot = reader.pin();
    writer.insert(0, b"never published", IndexEntry::default());
    drop(writer);
    verify(&reader.pin());
    drop(reader);
    verify(&snapshot);
    assert_eq!(snapshot.mark(), 20);
}
