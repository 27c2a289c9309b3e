//! A whole state goes from one store to another, and both go on living.

use crate::store;

use engine::{Batch, Commitment, Error, HardState, Options, Worker};
use environment::Disk;
use environment::simulated::{Restart, SimulatedDisk};
use std::path::Path;
use store::model::Model;
use store::snapshots::{feed, pieces, wait};
use store::{DIRECTORY, Store, options, put, seed};

/// A store with compactions behind it, all swept.
fn source(disk: &SimulatedDisk, seed: u64) -> Store {
    let mut store = Store::new(disk);
    store.fill(seed, 150).unwrap();
    store.compact(60).unwrap();
    store.fill(seed + 1, 50).unwrap();
    store
}

/// Another store, with a life of its own behind it.
fn receiver(disk: &SimulatedDisk) -> Store {
    let mut store = Store::new(disk);
    store.fill(seed(77), 40).unwrap();
    store.checkpoint().unwrap();
    store.fill(seed(78), 20).unwrap();
    store
}

#[test]
fn a_snapshot_with_an_index_beyond_the_limit_is_refused_and_changes_nothing() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let mut source = source(&here, seed(1));
    for batch in 0..10 {
        let key = |number| format!("many{batch}{number}");
        let writes: Vec<_> = (0..100).map(|number| put(key(number), "v")).collect();
        source.write(&writes).unwrap();
    }
    let picture = source.picture();
    let pieces = pieces(&mut source.export(2000));
    let limited = |memory_bytes_max| Options {
        memory_bytes_max,
        ..options()
    };
    let mut receiver = Store::open(&there, limited(12 << 10), Model::default()).unwrap();
    receiver.fill(seed(77), 20).unwrap();
    let files = |disk: &SimulatedDisk| (names(disk, ".checkpoint"), names(disk, ".partial"));
    let before = files(&there);
    let mut import = receiver.import();
    let failure = feed(&mut import, &pieces).unwrap_err();
    assert!(
        matches!(*failure, Error::SnapshotMemoryLimit { index_bytes, memory_bytes_max: 12_288 }
            if index_bytes > 12_288 && index_bytes < 24 << 10),
        "{failure}"
    );
    let told = failure.to_string();
    for part in ["--memory-bytes-max", "12288", "compact"] {
        assert!(told.contains(part), "{told}");
    }
    drop(import);
    assert_eq!(files(&there), before);
    receiver.check_all();
    receiver.write(&[put("still", "here")]).unwrap();
    let mut receiver = receiver.reopen(&there);
    receiver.check_all();
    // With more memory it is taken.
    let model = std::mem::take(&mut receiver.model);
    drop(receiver);
    let mut receiver = Store::open(&there, limited(8 << 20), model).unwrap();
    let mut import = receiver.import();
    feed(&mut import, &pieces).unwrap();
    receiver.install(import, &picture).unwrap();
    receiver.check_all();
}

fn names(disk: &SimulatedDisk, ending: &str) -> Vec<String> {
    let mut names = disk.list(Path::new(DIRECTORY)).unwrap();
    names.retain(|name| name.ends_with(ending));
    names
}

#[test]
fn a_snapshot_brings_everything_while_its_source_goes_on() {
    for (round, piece_bytes) in [100, 2000, 20_000, 1 << 20].into_iter().enumerate() {
        let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
        let mut source = source(&here, seed(round as u64));
        let picture = source.picture();
        let mut export = source.export(piece_bytes);
        let mut receiver = receiver(&there);
        let mut import = receiver.import();
        let mut number = 0;
        for piece in export.by_ref() {
            let piece = piece.unwrap();
            assert_eq!(piece.number, number);
            number += 1;
            import.offer(piece.bytes).unwrap();
            if number < 100 {
                live_on(&mut source, number);
                receiver.write(&[put("beside", "here too")]).unwrap();
            }
        }
        live_on(&mut source, 8);
        live_on(&mut source, 16);
        wait(&import).unwrap();
        receiver.install(import, &picture).unwrap();
        receiver.check_everything();
        receiver.finish_maintenance();
        let mut receiver = receiver.reopen(&there);
        assert_eq!(receiver.recovered.base, (picture.index, 1));
        assert!(receiver.recovered.entries.is_empty());
        receiver.check_everything();
        receiver.fill(seed(99), 20).unwrap();
        receiver.check_everything();
        receiver.reopen(&there).check_everything();
        drop(export);
        source.check_everything();
    }
}

/// Writes, compactions, reclaim.
fn live_on(source: &mut Store, step: u64) {
    source.fill(step, 2).unwrap();
    if step.is_multiple_of(8) {
        let revision = source.model.revision;
        source.begin_compaction(revision - 1).unwrap();
    }
    if step.is_multiple_of(16) {
        source.defragment().unwrap();
    }
    source.maintain().unwrap();
}

#[test]
fn a_snapshot_of_the_same_state_is_the_same_everywhere() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let mut source = source(&here, seed(3));
    let sent = pieces(&mut source.export(3000));
    let mut receiver = receiver(&there);
    let mut import = receiver.import();
    feed(&mut import, &sent).unwrap();
    receiver.install(import, &source.picture()).unwrap();
    assert_eq!(pieces(&mut receiver.export(3000)), sent);
    source.defragment().unwrap();
    assert_eq!(pieces(&mut source.export(3000)), sent);
    let other = pieces(&mut source.export(3001));
    assert_ne!(other[0], sent[0], "of other pieces");
}

#[test]
fn an_export_goes_on_with_any_piece_that_it_has_given() {
    let disk = SimulatedDisk::new(1);
    let mut source = source(&disk, seed(4));
    let mut export = source.export(1500);
    assert!(export.seek(1).is_err(), "not given yet");
    let all = pieces(&mut export);
    assert!(all.len() > 20 && all.last().unwrap().last);
    assert!(all.iter().rev().skip(1).all(|piece| !piece.last));
    for number in [5, 0, all.len() - 1, 3, all.len() / 2] {
        live_on(&mut source, 8 * number as u64);
        export.seek(number as u64).unwrap();
        assert_eq!(export.number(), number as u64);
        assert_eq!(pieces(&mut export), all[number..]);
    }
    assert!(export.seek(all.len() as u64 + 1).is_err());
}

#[test]
fn sweeps_of_later_compactions_wait_until_the_export_is_dropped() {
    let disk = SimulatedDisk::new(1);
    let mut source = source(&disk, seed(5));
    let export = source.export(1 << 20);
    let before = source.engine.status().versions;
    let revision = source.model.revision;
    source.compact(revision).unwrap();
    source.finish_maintenance();
    assert!(!source.applier.is_sweeping());
    assert_eq!(source.applier.swept(), 60, "nothing of this was dropped");
    assert_eq!(source.engine.status().versions, before);
    source.check_reads();
    drop(export);
    assert!(source.applier.is_sweeping());
    source.finish_maintenance();
    assert_eq!(source.applier.swept(), revision);
    source.check_everything();
}

#[test]
fn an_empty_store_gives_a_snapshot_once_something_was_applied() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let mut source = Store::new(&here);
    source.write(&[put("k", "v")]).unwrap();
    let all = pieces(&mut source.export(1 << 20));
    let mut receiver = Store::new(&there);
    let mut import = receiver.import();
    feed(&mut import, &all).unwrap();
    receiver.install(import, &source.picture()).unwrap();
    receiver.check_everything();
    receiver.reopen(&there).check_everything();
}

#[test]
fn old_segments_go_and_the_new_ones_stay() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let source = source(&here, seed(6));
    let mut receiver = Store::new(&there);
    receiver.fill(seed(7), 150).unwrap();
    receiver.defragment().unwrap();
    let old = names(&there, ".sorted");
    assert!(!old.is_empty());
    let mut import = receiver.import();
    feed(&mut import, &pieces(&mut source.export(5000))).unwrap();
    receiver.install(import, &source.picture()).unwrap();
    assert_eq!(names(&there, ".checkpoint").len(), 1);
    assert!(names(&there, ".partial").is_empty());
    receiver.finish_maintenance();
    let new = names(&there, ".sorted");
    assert!(!new.is_empty() && old.iter().all(|name| !new.contains(name)));
    let logs = names(&there, ".log");
    assert!(logs.len() <= 2, "{logs:?}: the active one and the next");
    receiver.check_everything();
}

/// Versions that readers hold stay right, or reading them says that they are compacted.
#[test]
fn readers_of_the_old_state_never_see_a_wrong_byte() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let mut source = Store::new(&here);
    source.fill(seed(8), 300).unwrap();
    // The receiver has the beginning of the same story.
    let mut receiver = Store::new(&there);
    receiver.fill(seed(8), 100).unwrap();
    let old = receiver.model.clone();
    source.compact(50).unwrap();
    let snapshot = receiver.engine.snapshot();
    let versions: Vec<_> = [30, 70, 101]
        .into_iter()
        .flat_map(|at| snapshot.range(&[], None, at).collect::<Vec<_>>())
        .collect();
    let mut hashed = receiver.engine.versions_in_revision_order(90).unwrap();
    let mut history = receiver.engine.history(2).unwrap();
    let mut late_history = receiver.engine.history(80).unwrap();
    assert!(hashed.next().unwrap().is_ok());
    assert!(history.next().unwrap().is_ok());
    assert!(late_history.next().unwrap().is_ok());
    let mut import = receiver.import();
    feed(&mut import, &pieces(&mut source.export(4000))).unwrap();
    receiver.install(import, &source.picture()).unwrap();
    receiver.finish_maintenance();
    let mut read = 0;
    for version in &versions {
        match receiver.engine.read(version) {
            Ok(stored) => {
                let expected = old.visible(&version.key, version.main).unwrap();
                assert_eq!(stored.kv, expected.kv);
                read += 1;
            }
            Err(Error::Compacted { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(read > 0 && read < versions.len(), "{read} read");
    assert_eq!(snapshot.revision(), 101, "a snapshot stays what it is");
    for stored in hashed {
        match stored {
            Ok(stored) => assert_eq!(stored.kv, old.written(stored.revision).unwrap().kv),
            Err(error) => assert!(matches!(error, Error::Compacted { .. }), "{error}"),
        }
    }
    let missed = history.next().unwrap();
    assert!(matches!(missed, Err(Error::Compacted { .. })), "{missed:?}");
    let mains: Vec<i64> = late_history.map(|changes| changes.unwrap().main).collect();
    assert_eq!(mains, (81..=source.model.revision).collect::<Vec<_>>());
}

#[test]
fn entries_that_were_never_committed_do_not_come_back() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let mut source = source(&here, seed(9));
    let quorum = Options {
        commitment: Commitment::Quorum,
        ..options()
    };
    let mut receiver = Store::open(&there, quorum.clone(), Model::default()).unwrap();
    receiver.fill(seed(9), 10).unwrap();
    let promised = HardState {
        term: 7,
        vote: 3,
        commit: receiver.index,
    };
    receiver.engine.append_hard_state(promised).unwrap();
    // Entries of an old leader that had no followers.
    for number in 1..30 {
        let batch = receiver.batch(&[put("lost", vec![number; 3000])]);
        let batch = Batch {
            index: receiver.index + u64::from(number),
            ..batch
        };
        let body = batch.encode().unwrap();
        receiver.engine.append_entry(&batch, &body, None).unwrap();
    }
    let mut history = receiver.engine.history(5).unwrap();
    assert!(history.next().is_some());
    let mut import = receiver.import();
    feed(&mut import, &pieces(&mut source.export(4000))).unwrap();
    let installed = receiver.install(import, &source.picture()).unwrap();
    assert_eq!(
        (installed.hard_state.term, installed.hard_state.vote),
        (7, 3)
    );
    assert_eq!(installed.hard_state.commit, source.index);
    receiver.finish_maintenance();
    let gone = history.next().unwrap();
    assert!(matches!(gone, Err(Error::Compacted { .. })), "{gone:?}");
    receiver.check_everything();
    there.crash();
    let there = there.restart(Restart::power_loss());
    let model = source.picture().model;
    let mut receiver = Store::open(&there, quorum, model).unwrap();
    let recovered = &receiver.recovered;
    assert_eq!(recovered.base, (source.index, 1));
    assert!(recovered.entries.is_empty() && recovered.unapplied.is_empty());
    assert_eq!(recovered.hard_state, installed.hard_state);
    receiver.check_everything();
    source.fill(1, 3).unwrap();
}

/// The log holds entries behind the applied one that were never committed.
#[test]
fn a_walk_along_the_old_log_goes_on_in_the_new_state() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let mut source = Store::new(&here);
    source.fill(seed(20), 80).unwrap();
    let mut receiver = Store::new(&there);
    receiver.fill(seed(20), 10).unwrap();
    let mut history = receiver.engine.history(2).unwrap();
    assert_eq!(history.by_ref().count(), 10, "all that is applied");
    for number in 1..5 {
        let mut batch = receiver.batch(&[put("lost", vec![number; 300])]);
        batch.index += u64::from(number) - 1;
        let appended = receiver.engine.append(&batch).unwrap();
        receiver.engine.wait_durable(appended.sequence).unwrap();
    }
    assert!(history.next().is_none());
    let mut import = receiver.import();
    feed(&mut import, &pieces(&mut source.export(4000))).unwrap();
    receiver.install(import, &source.picture()).unwrap();
    let brought: Vec<_> = history
        .map(|changes| changes.unwrap())
        .map(|changes| {
            let kvs = changes.versions.into_iter().map(|stored| stored.kv);
            (changes.main, kvs.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(brought, source.model.history(12));
    receiver.check_everything();
}

#[test]
fn an_installation_that_does_not_fit_is_refused_and_changes_nothing() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let source = source(&here, seed(10));
    let all = pieces(&mut source.export(4000));
    let mut receiver = receiver(&there);
    let mut import = receiver.import();
    let second = receiver.engine.import(Box::new(|| ()));
    assert!(matches!(second, Err(Error::ImportUnderWay)), "{second:?}");
    for piece in &all[..3] {
        import.offer(piece.bytes.clone()).unwrap();
    }
    let early = receiver.install(import, &source.picture());
    assert!(matches!(early, Err(Error::ImportIncomplete)), "{early:?}");
    let mut import = receiver.import();
    feed(&mut import, &all).unwrap();
    let refused = receiver
        .applier
        .install(import, &mut |_| Err(Error::Replay("not mine".into())));
    assert!(matches!(refused, Err(Error::Replay(_))), "{refused:?}");
    receiver.check_all();
    while receiver.index < source.index {
        receiver.write(&[put("further", "on")]).unwrap();
    }
    let mut import = receiver.import();
    feed(&mut import, &all).unwrap();
    let old = receiver.install(import, &source.picture());
    assert!(matches!(old, Err(Error::SnapshotOld { .. })), "{old:?}");
    assert!(names(&there, ".sorted").is_empty());
    assert!(names(&there, ".partial").is_empty());
    receiver.check_all();
    receiver.reopen(&there).check_all();
}

#[test]
fn an_export_ends_when_its_member_takes_another_state() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let source = source(&here, seed(11));
    let mut receiver = receiver(&there);
    let mut export = receiver.export(500);
    assert!(export.next().unwrap().is_ok());
    let mut import = receiver.import();
    feed(&mut import, &pieces(&mut source.export(4000))).unwrap();
    receiver.install(import, &source.picture()).unwrap();
    let over = export.next().unwrap();
    assert!(matches!(over, Err(Error::ExportOver { .. })), "{over:?}");
    drop(export);
    let again = pieces(&mut receiver.export(4000));
    assert_eq!(again, pieces(&mut source.export(4000)));
}

#[test]
fn closing_takes_an_unfinished_import_away_first() {
    for worker in [Worker::Threads, Worker::Caller] {
        let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
        let source = source(&here, seed(12));
        let all = pieces(&mut source.export(3000));
        let options = Options {
            log: engine::LogOptions {
                worker,
                ..options().log
            },
            ..options()
        };
        let mut receiver = Store::open(&there, options, Model::default()).unwrap();
        receiver.fill(seed(13), 10).unwrap();
        let mut import = receiver.import();
        for piece in &all[..all.len() - 1] {
            import.offer(piece.bytes.clone()).unwrap();
        }
        receiver.applier.close().unwrap();
        assert!(names(&there, ".partial").is_empty());
        assert!(names(&there, ".sorted").is_empty());
        let late = import.offer(all[all.len() - 1].bytes.clone());
        assert!(late.is_ok(), "{late:?}");
        while import.progress().is_ok() {
            std::thread::yield_now();
        }
        let model = receiver.model.clone();
        let mut again = Store::open(&there, store::options(), model).unwrap();
        again.check_all();
        drop(import);
        again.fill(seed(14), 30).unwrap();
        again.check_all();
    }
}
