//! Garbage goes, live versions stay, and readers do not notice.

use crate::store;

use engine::{End, Entry, Error, Options, Worker};
use environment::Disk;
use environment::simulated::SimulatedDisk;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::model::Model;
use store::{SEGMENT_HEADER_BYTES, Store, delete, options, put, seen};

/// Rounds of overwrites of the same keys, some megabytes in all.
fn overwrite(store: &mut Store, rounds: u8) {
    for round in 0..rounds {
        for number in 0..20u8 {
            store
                .write(&[put([b'k', number], vec![round; 2000])])
                .unwrap();
        }
    }
}

#[test]
fn defragment_shrinks_a_small_store_to_what_lives() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    for number in 0..100u8 {
        store.write(&[put("counter", vec![number; 400])]).unwrap();
    }
    let full = store.engine.status();
    store.compact(store.model.revision).unwrap();
    let compacted = store.engine.status();
    let headers = compacted.segments as u64 * SEGMENT_HEADER_BYTES;
    let live = compacted.live_bytes - headers;
    assert!(live < full.live_bytes / 50, "{compacted:?}");
    store.defragment().unwrap();
    let small = store.engine.status();
    assert!(small.log_bytes < full.log_bytes / 4, "{full:?}\n{small:?}");
    assert!(small.live_bytes <= small.log_bytes);
    store.check_all();
    let mut store = store.reopen(&disk);
    store.check_all();
}

#[test]
fn defragment_moves_history_that_is_not_compacted_and_watches_still_read_it() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 3);
    store.compact(20).unwrap();
    store.defragment().unwrap();
    overwrite(&mut store, 1);
    store.check_all();
    store.check_history(20);
    store.check_history(30);
    let mut store = store.reopen(&disk);
    store.check_all();
    store.check_history(45);
}

#[test]
fn dead_segments_are_given_back_without_copying() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 40);
    let full = store.engine.status();
    store.compact(store.model.revision).unwrap();
    store.finish_maintenance();
    let small = store.engine.status();
    assert!(small.segments <= 4, "{small:?}");
    assert!(
        small.upkeep.released_segments as usize >= full.segments - 4,
        "{small:?}"
    );
    assert_eq!(
        small.upkeep.relocated_bytes, 0,
        "nothing lives in a dead segment"
    );
    store.check_all();
}

#[test]
fn mostly_dead_segments_are_emptied_and_every_live_version_stays() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    for round in 0..30u8 {
        store
            .write(&[put([b's', round], vec![round; 1500])])
            .unwrap();
        overwrite(&mut store, 1);
    }
    store.compact(store.model.revision).unwrap();
    store.finish_maintenance();
    let status = store.engine.status();
    assert!(status.upkeep.relocated_bytes > 0, "{status:?}");
    assert!(status.log_bytes < 4 * status.live_bytes, "{status:?}");
    store.check_all();
    let mut store = store.reopen(&disk);
    store.check_all();
}

/// Segments of 32 records each, of which some are written again later: `kept_of` says how many of
/// which segment are not. Everything is compacted.
fn segments_that_keep(store: &mut Store, kept_of: &[u32]) {
    const RECORDS: u32 = 32;
    let key = |segment: usize, number: u32| format!("{segment:03}-{number:02}");
    for segment in 0..kept_of.len() {
        for number in 0..RECORDS {
            write_without_model(store, &[put(key(segment, number), [1; 1_840])]);
        }
    }
    for (segment, kept) in kept_of.iter().enumerate() {
        let replaced: Vec<_> = (*kept..RECORDS)
            .map(|number| put(key(segment, number), "short"))
            .collect();
        write_without_model(store, &replaced);
    }
    let revision = store.engine.snapshot().revision();
    store.compact(revision).unwrap();
}

fn patient(garbage_percent_max: u64) -> Options {
    Options {
        garbage_percent_max,
        checkpoint_bytes: 1 << 30,
        ..options()
    }
}

fn log_file_exists(disk: &SimulatedDisk, segment: u32) -> bool {
    let names = disk.list(std::path::Path::new(store::DIRECTORY)).unwrap();
    names.contains(&format!("{segment:08x}.log"))
}

#[test]
fn garbage_is_left_alone_up_to_its_share_of_the_live_bytes_and_the_emptiest_segments_go_first() {
    let kept_of: Vec<u32> = (0..30).collect();
    let mut relocated = Vec::new();
    for percent in [10_000, 100, 0] {
        let disk = SimulatedDisk::new(1);
        let mut store = Store::open(&disk, patient(percent), Model::default()).unwrap();
        segments_that_keep(&mut store, &kept_of);
        let before = store.engine.status();
        let last = before.segments as u32;
        store.finish_maintenance();
        let status = store.engine.status();
        let garbage_bytes = status.log_bytes - status.live_bytes;
        match percent {
            10_000 => assert_eq!(status.upkeep.checkpoints, 0, "{status:?}"),
            100 => {
                // The segment in use and frames are garbage of no candidate.
                assert!(garbage_bytes < status.live_bytes * 3 / 2, "{status:?}");
                assert!(garbage_bytes > status.live_bytes / 2, "{status:?}");
                assert!((1..4).all(|segment| !log_file_exists(&disk, segment)));
                assert!((14..=last).all(|segment| log_file_exists(&disk, segment)));
            }
            _ => assert!(garbage_bytes < status.live_bytes, "{status:?}"),
        }
        relocated.push(status.upkeep.relocated_bytes);
        let count = store.engine.snapshot().keys();
        let reopened = store.reopen(&disk);
        assert_eq!(reopened.engine.snapshot().keys(), count);
    }
    assert_eq!(relocated[0], 0);
    assert!(
        0 < relocated[1] && relocated[1] < relocated[2],
        "{relocated:?}"
    );
}

#[test]
fn several_rounds_of_copies_end_in_one_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::open(&disk, patient(100), Model::default()).unwrap();
    segments_that_keep(&mut store, &[14; 120]);
    store.finish_maintenance();
    let status = store.engine.status();
    // A round copies at most what four segments hold.
    let rounds = status.upkeep.relocated_bytes.div_ceil(4 * (64 << 10));
    assert!(rounds >= 2, "{status:?}");
    assert!(status.upkeep.checkpoints < rounds, "{status:?}");
    assert!(status.upkeep.released_segments > 9, "{status:?}");
    let count = store.engine.snapshot().keys();
    assert_eq!(store.reopen(&disk).engine.snapshot().keys(), count);
}

/// Dead segments alone are worth a checkpoint; behind it the others are looked at again.
#[test]
fn dead_segments_do_not_keep_others_from_being_emptied() {
    for (percent, kept_of) in [
        (0, [[0; 10], [6; 10]].concat()),
        (0, vec![14; 45]),
        (100, [[0; 20], [6; 20]].concat()),
    ] {
        let disk = SimulatedDisk::new(1);
        let mut store = Store::open(&disk, patient(percent), Model::default()).unwrap();
        segments_that_keep(&mut store, &kept_of);
        store.finish_maintenance();
        let status = store.engine.status();
        let garbage_bytes = status.log_bytes - status.live_bytes;
        let left_alone = status.live_bytes * percent / 100 + 3 * (64 << 10);
        assert!(garbage_bytes < left_alone, "{percent} %: {status:?}");
        assert!(status.upkeep.relocated_bytes > 0);
    }
}

#[test]
fn segments_that_are_kept_for_a_member_behind_are_emptied_when_it_has_caught_up() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::open(&disk, patient(0), Model::default()).unwrap();
    let batch = store.batch(&[put("first", "x")]);
    let appended = store.append(&batch).unwrap();
    store.engine.wait_durable(appended.sequence).unwrap();
    store.index = batch.index;
    store.applier.apply(&batch, &appended);
    store.applier.keep_entries(Some(&Entry {
        index: batch.index,
        term: batch.term,
        start: appended.start,
        body_bytes: 0,
    }));
    segments_that_keep(&mut store, &[6; 20]);
    store.finish_maintenance();
    assert_eq!(store.engine.status().upkeep.relocated_bytes, 0);
    store.applier.keep_entries(None);
    store.finish_maintenance();
    let status = store.engine.status();
    assert!(status.upkeep.relocated_bytes > 0, "{status:?}");
    assert!(status.upkeep.released_segments > 15, "{status:?}");
}

#[test]
fn a_checkpoint_is_due_by_the_bytes_of_the_log_without_sorted_segments() {
    let options = Options {
        checkpoint_bytes: 8 * (64 << 10),
        ..patient(0)
    };
    let disk = SimulatedDisk::new(1);
    let mut store = Store::open(&disk, options, Model::default()).unwrap();
    segments_that_keep(&mut store, &[12; 30]);
    store.finish_maintenance();
    let before = store.engine.status().upkeep;
    assert!(before.relocated_bytes > 8 * (64 << 10), "{before:?}");
    let mut write_segments = |segments: std::ops::Range<u32>| {
        for number in segments.start * 32..segments.end * 32 {
            write_without_model(&mut store, &[put(format!("new {number}"), [2; 1_840])]);
        }
        store.finish_maintenance();
        store.engine.status().upkeep.checkpoints - before.checkpoints
    };
    assert_eq!(write_segments(0..6), 0);
    assert_eq!(write_segments(6..9), 1);
}

#[test]
fn garbage_takes_no_more_room_than_the_disk_has_besides() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::open(&disk, patient(10_000), Model::default()).unwrap();
    segments_that_keep(&mut store, &[6; 30]);
    store.finish_maintenance();
    assert_eq!(store.engine.status().upkeep.relocated_bytes, 0);
    let space = disk.space(std::path::Path::new(store::DIRECTORY)).unwrap();
    let used_bytes = space.total_bytes - space.available_bytes;
    disk.set_capacity(used_bytes + (1 << 20));
    // A compaction is news.
    let revision = store.engine.snapshot().revision();
    write_without_model(&mut store, &[put("other", "x")]);
    store.compact(revision + 1).unwrap();
    store.finish_maintenance();
    let status = store.engine.status();
    assert!(status.upkeep.relocated_bytes > 0, "{status:?}");
    let space = disk.space(std::path::Path::new(store::DIRECTORY)).unwrap();
    assert!(status.log_bytes - status.live_bytes < space.available_bytes + (64 << 10));
}

#[test]
fn a_store_that_is_closed_between_two_rounds_keeps_what_it_has_copied() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::open(&disk, patient(100), Model::default()).unwrap();
    segments_that_keep(&mut store, &[14; 120]);
    // Until the first round's places are to be swapped, and then until they are.
    for is_swapping in [false, true] {
        while store.applier.has_a_step_to_do() == is_swapping {
            store.maintain().unwrap();
        }
    }
    assert_eq!(store.engine.status().upkeep.checkpoints, 0);
    let state = store.state();
    let mut state = || state.clone();
    store.applier.checkpoint_for_opening(&mut state).unwrap();
    let status = store.engine.status();
    assert_eq!(status.upkeep.checkpoints, 1);
    assert!(status.upkeep.released_segments >= 8, "{status:?}");
}

#[test]
fn segments_with_history_that_is_not_compacted_stay_in_the_log() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 20);
    store.compact(3).unwrap();
    store.finish_maintenance();
    assert_eq!(store.engine.status().upkeep.released_segments, 0);
    store.check_history(3);
}

#[test]
fn a_second_walk_over_held_versions_follows_records_that_have_moved_since_the_first() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 3);
    store.compact(store.model.revision - 10).unwrap();
    let held = Arc::new(store.engine.hold_all_versions());
    let sizes: Vec<_> = held.sizes().unwrap().map(Result::unwrap).collect();
    let before = store.engine.status().log_bytes;
    store.defragment().unwrap();
    assert!(store.engine.status().log_bytes < before);
    let versions = held.versions().unwrap().map(Result::unwrap);
    let after: Vec<_> = versions
        .map(|version| (version.revision, version.kv.len()))
        .collect();
    let sizes = sizes.iter().map(|size| (size.revision, size.kv_bytes));
    assert_eq!(after, sizes.collect::<Vec<_>>());
    assert_eq!(after.len(), 30);
}

#[test]
fn a_version_looked_up_before_reclaim_can_be_read_after_it() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 2);
    store.write(&[delete([b'k', 3])]).unwrap();
    let held: Vec<_> = store
        .engine
        .snapshot()
        .range(&[], None, store.model.revision)
        .collect();
    let lost = store
        .engine
        .snapshot()
        .get(&[b'k', 3], store.model.revision - 1)
        .unwrap();
    let engine = store.engine.clone();
    let [mut looks, mut with_the_lost] = [0, 1].map(|before| {
        let mut looks = engine.looks();
        let at = store.model.revision - before;
        let snapshot = engine.snapshot();
        looks.list(
            snapshot.range(&[], None, at),
            End::Front,
            usize::MAX,
            u64::MAX,
        );
        looks
    });
    for _ in 0..3 {
        store.compact(store.model.revision).unwrap();
        store.defragment().unwrap();
        store.write(&[put("other", "x")]).unwrap();
    }
    assert_eq!(held.len(), 19);
    for version in &held {
        assert_eq!(store.engine.read(version).unwrap().key, version.key);
    }
    let mut together: Vec<_> = held.iter().collect();
    let read = store.engine.read_all(&together).unwrap();
    assert!(
        read.iter()
            .map(|it| &it.key)
            .eq(held.iter().map(|it| &it.key))
    );
    assert_eq!(seen(&mut looks).unwrap().len(), 19);
    together.insert(7, &lost);
    for refused in [
        store.engine.read(&lost).map(drop),
        store.engine.read_all(&together).map(drop),
        seen(&mut with_the_lost).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Compacted { .. })));
    }
}

#[test]
fn versions_that_are_read_together_are_announced_to_the_device() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let long = vec![7; 3_000];
    for number in 0..600_u32 {
        let key = format!("{:03}", number * 7 % 600);
        let value = match number % 50 {
            0 => &long[..],
            _ => key.as_bytes(),
        };
        store.write(&[put(&key, value)]).unwrap();
    }
    let snapshot = store.engine.snapshot();
    let versions: Vec<_> = snapshot.range(b"", None, i64::MAX).collect();
    drop(snapshot);
    let versions: Vec<_> = versions.iter().collect();
    store.engine.read_all(&versions).unwrap();
    assert_eq!(disk.take_announced(), [], "all is cached");
    disk.cache_nothing();
    let read = store.engine.read_all(&versions).unwrap();
    for (stored, version) in read.iter().zip(&versions) {
        assert_eq!(*stored, store.engine.read(version).unwrap());
    }
    let bytes = |announced: &[(u64, u64)]| announced.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let of_all = bytes(&disk.take_announced());
    let log_bytes: u64 = versions.iter().map(|version| version.log_bytes()).sum();
    assert!(of_all >= log_bytes, "{of_all} of {log_bytes}");
    store.engine.read_all(&versions[..1]).unwrap();
    assert_eq!(disk.take_announced(), [], "one has no other to wait beside");
    let mut looks = store.engine.looks();
    let snapshot = store.engine.snapshot();
    looks.list(
        snapshot.range(b"", None, i64::MAX),
        End::Front,
        usize::MAX,
        u64::MAX,
    );
    assert_eq!(seen(&mut looks).unwrap().len(), 600);
    assert_eq!(bytes(&disk.take_announced()), of_all);
}

#[test]
fn a_checkpoint_between_append_and_apply_replays_what_was_not_applied() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 4);
    store.compact(store.model.revision).unwrap();
    for defragment in [false, true, true] {
        let batch = store.batch(&[put("pending", format!("{defragment}"))]);
        let appended = store.append(&batch).unwrap();
        store.engine.wait_durable(appended.sequence).unwrap();
        if defragment {
            store.defragment().unwrap()
        } else {
            store.checkpoint().unwrap()
        };
        store.check_all();
        store.model.apply(&batch);
        store = store.reopen(&disk);
        store.check_all();
        assert_eq!(store.recovered.batches, 1, "the pending one");
    }
}

#[test]
fn readers_beside_reclaim_always_find_their_version() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 2);
    let engine = store.engine.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let reader = environment::threads::spawn("reader", move || {
        let mut reads = 0u64;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let snapshot = engine.snapshot();
            let versions: Vec<_> = snapshot
                .range(b"k", Some(b"l"), snapshot.revision())
                .collect();
            drop(snapshot);
            assert_eq!(versions.len(), 20);
            match engine.read_all(&versions.iter().collect::<Vec<_>>()) {
                Ok(read) => assert!(
                    read.iter()
                        .map(|it| (&it.key, it.revision.main))
                        .eq(versions.iter().map(|it| (&it.key, it.main)))
                ),
                Err(Error::Compacted { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            for version in versions {
                match engine.read(&version) {
                    Ok(stored) => assert_eq!(
                        (&stored.key, stored.revision.main),
                        (&version.key, version.main)
                    ),
                    Err(Error::Compacted { .. }) => {}
                    Err(error) => panic!("{version:?}: {error}"),
                }
                let snapshot = engine.snapshot();
                let lineage = engine.lineage(&snapshot, &version.key, snapshot.revision());
                match lineage {
                    Ok(found) => assert!(found.is_some_and(|it| it.version >= 1)),
                    Err(Error::Compacted { .. }) => {}
                    Err(error) => panic!("{version:?}: {error}"),
                }
                reads += 1;
            }
        }
        reads
    })
    .unwrap();
    for _ in 0..12 {
        overwrite(&mut store, 1);
        store.compact(store.model.revision).unwrap();
        store.defragment().unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
}

/// Checkpoints run without pause while keys come, change, go and are
/// compacted: what they smear over time, replay sets right.
#[test]
fn a_checkpoint_written_beside_writes_restores_the_same_store() {
    let options = Options {
        log: engine::LogOptions {
            segment_bytes: 4 << 20,
            ..options().log
        },
        checkpoint_bytes: 1,
        ..options()
    };
    for seed in 0..4 {
        let mut random = environment::randomness::Random::from_seed(seed);
        let disk = SimulatedDisk::new(seed);
        let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
        let mut alive = BTreeMap::new();
        let mut checkpoints = 0;
        for _ in 0..150 {
            smear(&mut store, &mut random, &mut alive);
            checkpoints = store.engine.status().upkeep.checkpoints;
        }
        assert!(checkpoints > 3, "only {checkpoints} checkpoints");
        let before = contents(&mut store);
        drop(store);
        let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
        assert!(
            contents(&mut store) == before,
            "seed {seed}: another store came back"
        );
    }
}

#[test]
fn defragmenting_more_than_one_round_leaves_a_directory_that_opens() {
    // The first round releases the segment of the last applied batch; the
    // checkpoint of the second one must not send replay there.
    let disk = SimulatedDisk::new(17);
    let mut store = Store::new(&disk);
    for number in 0..300_u32 {
        let key = [b'k', (number % 20) as u8];
        store.write(&[put(key, [number as u8; 900])]).unwrap();
    }
    store.defragment().unwrap();
    store.reopen(&disk).check_all();
}

/// Between its steps the store is written and read, and no step swaps more places
/// than one may.
#[test]
fn defragmenting_in_steps_lets_writes_go_on_between_them() {
    let options = Options {
        log: engine::LogOptions {
            worker: Worker::Caller,
            segment_bytes: 1 << 20,
            ..options().log
        },
        batch_bytes_max: 256 << 10,
        ..options()
    };
    let disk = SimulatedDisk::new(23);
    let mut store = Store::open(&disk, options.clone(), Model::default()).unwrap();
    for round in 0..10_u8 {
        let key = |number: u16| [&[b'k', round], &number.to_be_bytes()[..]].concat();
        let keys: Vec<_> = (0..900).map(|number| put(key(number), "v")).collect();
        write_without_model(&mut store, &keys);
        write_without_model(&mut store, &[put("garbage", [round; 30_000])]);
    }
    let revision = store.engine.snapshot().revision();
    store.compact(revision).unwrap();
    let (before, kept) = (
        store.engine.status(),
        store.range(b"k", Some(b"l"), i64::MAX),
    );
    store.applier.begin_defragmentation();
    let mut steps = 0_u8;
    while store.applier.is_defragmenting() {
        store.maintain().unwrap();
        steps += 1;
        write_without_model(&mut store, &[put("beside", [steps])]);
        let seen = store.get(b"beside", i64::MAX).unwrap();
        assert_eq!(seen.kv, store::encode(b"beside", &[steps]));
        assert_eq!(store.range(b"k", Some(b"l"), i64::MAX).len(), kept.len());
    }
    // Sealing, copying, three times swapping, writing a checkpoint, looking again.
    assert!(steps >= 7, "{steps} steps");
    let after = store.engine.status();
    assert!(after.upkeep.relocated_bytes > 9000 * 64, "{after:?}");
    assert!(
        after.log_bytes < before.log_bytes - 8 * 30_000,
        "{before:?}, {after:?}"
    );
    drop(store);
    let store = Store::open(&disk, options, Model::default()).unwrap();
    assert!(store.range(b"k", Some(b"l"), i64::MAX) == kept);
}

#[test]
fn a_defragmentation_that_fails_ends_there() {
    let disk = SimulatedDisk::new(29);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 20);
    store.compact(store.model.revision).unwrap();
    let third = std::path::Path::new(store::DIRECTORY).join("00000003.log");
    disk.remove(&third).unwrap();
    assert!(store.defragment().is_err());
    assert!(!store.applier.is_defragmenting());
    store.check_reads();
}

/// One transaction without the model, which would be too slow for this many keys.
fn write_without_model(store: &mut Store, writes: &[store::Write]) {
    let mut model = Model::default();
    model.revision = store.engine.snapshot().revision();
    store.model = model;
    store.write(writes).unwrap();
}

/// Some hundred puts and deletions, and perhaps a compaction.
fn smear(
    store: &mut Store,
    random: &mut environment::randomness::Random,
    alive: &mut BTreeMap<Vec<u8>, ()>,
) {
    let mut writes = BTreeMap::new();
    for _ in 0..200 {
        let key = (random.below(12_000) as u32).to_be_bytes().to_vec();
        let write = match alive.remove(&key) {
            Some(()) if random.chance(1, 3) => delete(&key),
            _ => put(&key, "v"),
        };
        if matches!(write, store::Write::Put(..)) {
            alive.insert(key.clone(), ());
        }
        writes.entry(key).or_insert(write);
    }
    // A key met twice kept its first write.
    for (key, write) in &writes {
        match write {
            store::Write::Put(..) => drop(alive.insert(key.clone(), ())),
            store::Write::Delete(_) => drop(alive.remove(key)),
        }
    }
    let writes: Vec<_> = writes.into_values().collect();
    write_without_model(store, &writes);
    store.maintain().unwrap();
    if random.chance(1, 10) {
        let revision = store.engine.snapshot().revision() - 3;
        if revision > store.compacted {
            store.begin_compaction(revision).unwrap();
        }
    }
    store.maintain().unwrap();
}

/// Everything a store holds once its sweep is through.
fn contents(
    store: &mut Store,
) -> (
    Vec<(engine::Revision, bytes::Bytes)>,
    Vec<bytes::Bytes>,
    u64,
    u64,
) {
    store.applier.finish_compaction();
    let versions = store.engine.versions_in_revision_order(0).unwrap();
    let versions = versions
        .map(|stored| stored.unwrap())
        .map(|stored| (stored.revision, stored.kv));
    let status = store.engine.status();
    let now = store.range(&[], None, i64::MAX);
    (versions.collect(), now, status.versions, status.live_bytes)
}

#[test]
fn segments_that_went_before_one_that_cannot_go_are_forgotten() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    overwrite(&mut store, 20);
    let before = store.engine.status();
    store.compact(store.model.revision).unwrap();
    let third = std::path::Path::new(store::DIRECTORY).join("00000003.log");
    disk.remove(&third).unwrap();
    let error = store.checkpoint().unwrap_err();
    assert!(error.to_string().contains("00000003.log"), "{error}");
    let status = store.engine.status();
    assert!(status.upkeep.released_segments > 0, "{status:?}");
    assert_eq!(
        status.segments,
        before.segments - status.upkeep.released_segments as usize
    );
    assert!(store.checkpoint().is_err(), "it is tried again");
    let again = store.engine.status().upkeep.released_segments;
    assert_eq!(
        again, status.upkeep.released_segments,
        "none is counted twice"
    );
    store.check_all();
}
