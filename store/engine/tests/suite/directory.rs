//! Directories that are in use, foreign, damaged or incomplete.

use crate::store;

use engine::{Engine, Error};
use environment::real::RealDisk;
use environment::simulated::SimulatedDisk;
use environment::{Disk, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::model::Model;
use store::{DIRECTORY, Store, encode, options, put};

/// A store with two checkpoints and a tail.
fn filled(disk: &SimulatedDisk) -> Store {
    let mut store = Store::new(disk);
    for round in 0..3 {
        for number in 0..5 {
            store
                .write(&[put(format!("key{number}"), format!("round {round}"))])
                .unwrap();
        }
        if round < 2 {
            store.checkpoint().unwrap();
        }
    }
    store
}

fn checkpoints(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    let mut names: Vec<String> = names
        .into_iter()
        .filter(|name| name.ends_with(".checkpoint"))
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| Path::new(DIRECTORY).join(name))
        .collect()
}

fn open_error(disk: &SimulatedDisk) -> Error {
    Store::open(disk, options(), Model::default())
        .err()
        .expect("it must not open")
}

fn size(disk: &SimulatedDisk, path: &Path) -> u64 {
    disk.open(path, OpenMode::Read).unwrap().size().unwrap()
}

#[test]
fn a_second_engine_on_the_directory_is_refused_with_the_holder() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let open = || {
        Engine::open(Arc::clone(&disk), directory.path(), options(), &mut |_| {
            Ok(())
        })
    };
    let first = open().unwrap();
    let error = open().unwrap_err();
    assert!(matches!(error, Error::DirectoryInUse { .. }), "{error}");
    assert!(
        error.to_string().contains(&std::process::id().to_string()),
        "{error}"
    );
    drop(first);
    open().unwrap();
}

#[test]
fn the_directory_is_unlocked_when_the_last_handle_is_dropped() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    let Store {
        engine, applier, ..
    } = store;
    drop(applier);
    assert!(matches!(open_error(&disk), Error::DirectoryInUse { .. }));
    drop(engine);
    Store::open(&disk, options(), Model::default()).unwrap();
}

#[test]
fn another_stores_directory_is_refused() {
    let disk = SimulatedDisk::new(1);
    disk.create_directories(Path::new(DIRECTORY)).unwrap();
    disk.open(&Path::new(DIRECTORY).join("CURRENT"), OpenMode::CreateNew)
        .unwrap();
    let error = open_error(&disk);
    assert!(
        matches!(&error, Error::Foreign { file, .. } if file == "CURRENT"),
        "{error}"
    );
}

#[test]
fn a_segment_file_of_another_program_is_refused() {
    let disk = SimulatedDisk::new(1);
    drop(filled(&disk));
    let path = Path::new(DIRECTORY).join("00000077.log");
    let file = disk.open(&path, OpenMode::CreateNew).unwrap();
    file.write_durable_at(&[&[b'x'; 65536]], 0).unwrap();
    let error = open_error(&disk).to_string();
    assert!(error.contains("00000077.log"), "{error}");
}

#[test]
fn a_file_that_is_only_called_like_a_segment_is_no_log() {
    let disk = SimulatedDisk::new(1);
    disk.create_directories(Path::new(DIRECTORY)).unwrap();
    let path = Path::new(DIRECTORY).join("00000001.log");
    let file = disk.open(&path, OpenMode::CreateNew).unwrap();
    file.write_durable_at(&[b"a web server's lines"], 0)
        .unwrap();
    let error = open_error(&disk);
    assert!(
        matches!(&error, Error::NotASegment { file } if *file == path),
        "{error}"
    );
}

#[test]
fn every_damaged_byte_of_the_newest_checkpoint_is_seen_and_the_older_one_takes_over() {
    let disk = SimulatedDisk::new(1);
    let model = filled(&disk).model.clone();
    let files = checkpoints(&disk);
    assert_eq!(files.len(), 2);
    for offset in 0..size(&disk, &files[1]) {
        let disk = disk.fork();
        disk.flip_bit(&files[1], offset, (offset % 8) as u8);
        let mut store = Store::open(&disk, options(), model.clone()).unwrap();
        assert!(
            store.recovered.damaged_checkpoint.is_some(),
            "byte {offset}"
        );
        assert_eq!(store.recovered.batches, 10, "from the first checkpoint on");
        store.check_all();
    }
}

/// Without history the log is read before the entries of the checkpoint, with state hashes in
/// another way than without.
#[test]
fn a_damaged_checkpoint_is_passed_over_without_history_too() {
    let disk = SimulatedDisk::new(1);
    let model = filled(&disk).model.clone();
    let newest = &checkpoints(&disk)[1];
    for state_hash in [true, false] {
        let options = engine::Options {
            keeps_history: false,
            state_hash,
            ..options()
        };
        let whole = Store::open(&disk.fork(), options.clone(), model.clone()).unwrap();
        assert_eq!(whole.recovered.batches, 5);
        for offset in 0..size(&disk, newest) {
            let disk = disk.fork();
            disk.flip_bit(newest, offset, (offset % 8) as u8);
            let store = Store::open(&disk, options.clone(), model.clone()).unwrap();
            assert!(store.recovered.damaged_checkpoint.is_some());
            assert_eq!(store.recovered.batches, 10, "from the first checkpoint on");
            let (found, expected) = (store.engine.status(), whole.engine.status());
            assert_eq!(found.live_bytes, expected.live_bytes);
            assert_eq!(store.engine.state_hash(), whole.engine.state_hash());
            let snapshot = store.engine.snapshot();
            let versions = snapshot.range(&[], None, i64::MAX);
            let values = versions.map(|version| store.engine.read(&version).unwrap().kv);
            let keys = (0..5).map(|number| format!("key{number}"));
            assert!(values.eq(keys.map(|key| encode(key.as_bytes(), b"round 2"))));
        }
    }
}

#[test]
fn a_truncated_checkpoint_is_passed_over() {
    let disk = SimulatedDisk::new(1);
    let model = filled(&disk).model.clone();
    let newest = &checkpoints(&disk)[1];
    for bytes in (0..size(&disk, newest)).step_by(13) {
        let disk = disk.fork();
        disk.open(newest, OpenMode::ReadWrite)
            .unwrap()
            .set_size(bytes)
            .unwrap();
        let mut store = Store::open(&disk, options(), model.clone()).unwrap();
        assert!(
            store.recovered.damaged_checkpoint.is_some(),
            "{bytes} bytes"
        );
        store.check_all();
    }
}

/// A store without any checkpoint but a new directory's.
fn young(disk: &SimulatedDisk) -> Model {
    let mut store = Store::new(disk);
    for number in 0..60 {
        let key = format!("key{}", number % 7);
        store.write(&[put(key, vec![number; 3000])]).unwrap();
    }
    store.model.clone()
}

/// Opens the directory, looks at all there is, writes, and opens it once more.
fn check_rebuilt(disk: &SimulatedDisk, model: &Model) {
    let mut store = Store::open(disk, options(), model.clone()).unwrap();
    assert!(store.recovered.rebuilt);
    store.check_all();
    store.write(&[put("later", "written")]).unwrap();
    store.checkpoint().unwrap();
    let model = store.model.clone();
    drop(store);
    let mut store = Store::open(disk, options(), model).unwrap();
    assert!(!store.recovered.rebuilt, "the new checkpoint is usable");
    store.check_all();
}

#[test]
fn a_young_directory_is_rebuilt_from_its_log_whatever_byte_of_its_checkpoint_is_damaged() {
    let disk = SimulatedDisk::new(1);
    let model = young(&disk);
    let path = checkpoints(&disk).pop().unwrap();
    for offset in 0..size(&disk, &path) {
        let disk = disk.fork();
        disk.flip_bit(&path, offset, (offset % 8) as u8);
        check_rebuilt(&disk, &model);
    }
}

#[test]
fn a_young_directory_is_rebuilt_from_its_log_when_its_checkpoint_is_missing() {
    let disk = SimulatedDisk::new(1);
    let model = young(&disk);
    disk.remove(&checkpoints(&disk)[0]).unwrap();
    check_rebuilt(&disk, &model);
}

#[test]
fn a_directory_with_damaged_checkpoints_alone_is_rebuilt_while_its_log_is_whole() {
    let disk = SimulatedDisk::new(1);
    let model = filled(&disk).model.clone();
    for path in checkpoints(&disk) {
        disk.flip_bit(&path, 40, 3);
    }
    check_rebuilt(&disk, &model);
}

#[test]
fn a_log_without_checkpoint_that_lacks_a_segment_is_refused() {
    let disk = SimulatedDisk::new(1);
    young(&disk);
    disk.remove(&checkpoints(&disk)[0]).unwrap();
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    let mut logs: Vec<String> = names
        .into_iter()
        .filter(|it| it.ends_with(".log"))
        .collect();
    logs.sort();
    assert!(logs.len() >= 4, "{logs:?}");
    // Behind the last frame one more is kept ready.
    for lost in &logs[..logs.len() - 1] {
        let disk = disk.fork();
        disk.remove(&Path::new(DIRECTORY).join(lost)).unwrap();
        let error = open_error(&disk).to_string();
        assert!(error.contains(&lost[..8]), "without {lost}: {error}");
    }
}

#[test]
fn damaged_checkpoints_of_a_log_that_gave_its_beginning_back_are_refused_with_a_remedy() {
    let disk = SimulatedDisk::new(1);
    let mut store = filled(&disk);
    store.compact(store.model.revision).unwrap();
    store.defragment().unwrap();
    drop(store);
    for path in checkpoints(&disk) {
        disk.flip_bit(&path, 40, 3);
    }
    let error = open_error(&disk);
    let newest = checkpoints(&disk).pop().unwrap();
    assert!(
        matches!(&error, Error::CheckpointUnusable { file, .. } if *file == newest),
        "{error}"
    );
    assert!(
        error.to_string().contains("etcdctl member remove"),
        "{error}"
    );
    disk.remove(&newest).unwrap();
    let error = open_error(&disk);
    assert!(matches!(error, Error::CheckpointMissing { .. }), "{error}");
}

#[test]
fn an_older_checkpoint_that_points_into_released_segments_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut store = filled(&disk);
    let older = disk.fork();
    store.compact(store.model.revision).unwrap();
    store.defragment().unwrap();
    drop(store);
    let files = checkpoints(&disk);
    assert_eq!(files.len(), 1, "the older ones went before the segments");
    disk.flip_bit(&files[0], 40, 3);
    // As if a crash had brought it back.
    let path = &checkpoints(&older)[1];
    let bytes = size(&older, path);
    let mut content = vec![0; bytes as usize];
    older
        .open(path, OpenMode::Read)
        .unwrap()
        .read_at(&mut content, 0)
        .unwrap();
    disk.open(path, OpenMode::CreateNew)
        .unwrap()
        .write_durable_at(&[&content], 0)
        .unwrap();
    let error = open_error(&disk);
    assert!(matches!(error, Error::CheckpointUnusable { .. }), "{error}");
}

#[test]
fn a_log_without_its_end_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut store = filled(&disk);
    store.engine.close().unwrap();
    let before = disk.fork();
    for number in 0..40 {
        store
            .write(&[put(format!("more{number}"), vec![1; 3000])])
            .unwrap();
    }
    store.checkpoint().unwrap();
    drop(store);
    // The newest checkpoint beside the segments of long ago.
    let path = checkpoints(&disk).pop().unwrap();
    let mut content = vec![0; size(&disk, &path) as usize];
    disk.open(&path, OpenMode::Read)
        .unwrap()
        .read_at(&mut content, 0)
        .unwrap();
    for older in checkpoints(&before) {
        before.remove(&older).unwrap();
    }
    before
        .open(&path, OpenMode::CreateNew)
        .unwrap()
        .write_durable_at(&[&content], 0)
        .unwrap();
    let error = open_error(&before);
    assert!(
        matches!(
            error,
            Error::LogCutShort { .. } | Error::CheckpointUnusable { .. }
        ),
        "{error}"
    );
}
