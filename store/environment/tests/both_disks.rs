//! The guarantees that callers rely on, tested on the real disk and on the simulated one
//! alike: a test that passes on one and fails on the other shows an error of the
//! simulation.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use environment::real::RealDisk;
use environment::simulated::SimulatedDisk;
use environment::{Disk, OpenMode};

/// Runs a case on both disks, each in a fresh directory.
fn on_both(case: impl Fn(&dyn Disk, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    case(&RealDisk, directory.path());
    let simulated = SimulatedDisk::new(1);
    simulated.create_directories(Path::new("/data")).unwrap();
    case(&simulated, Path::new("/data"));
}

fn contents(disk: &dyn Disk, path: &Path, mode: OpenMode) -> Vec<u8> {
    let file = disk.open(path, mode).unwrap();
    let mut buffer = vec![0xee; file.size().unwrap() as usize];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), buffer.len());
    buffer
}

fn sorted_names(disk: &dyn Disk, directory: &Path) -> Vec<String> {
    let mut names = disk.list(directory).unwrap();
    names.sort();
    names
}

#[test]
fn written_bytes_are_read_back_from_the_cache_and_from_the_device() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_at(&[b"hello ", b"", b"world"], 4_090).unwrap();
        file.write_durable_at(&[b"W"], 4_096).unwrap();
        let mut expected = vec![0; 4_090];
        expected.extend_from_slice(b"hello World");
        assert_eq!(contents(disk, &path, OpenMode::Read), expected);
        assert_eq!(contents(disk, &path, OpenMode::ReadDevice), expected);
        assert_eq!(contents(disk, &path, OpenMode::ReadWrite), expected);
    });
}

#[test]
fn a_read_is_short_only_at_the_end_of_the_file() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        disk.open(&path, OpenMode::CreateNew)
            .unwrap()
            .write_at(&[&[5; 10_000]], 0)
            .unwrap();
        for mode in [OpenMode::Read, OpenMode::ReadDevice] {
            let file = disk.open(&path, mode).unwrap();
            let mut buffer = [0; 6_000];
            assert_eq!(file.read_at(&mut buffer, 3_000).unwrap(), 6_000);
            assert_eq!(file.read_at(&mut buffer, 7_000).unwrap(), 3_000);
            assert_eq!(file.read_at(&mut buffer, 10_000).unwrap(), 0);
            assert_eq!(file.read_at(&mut buffer, 50_000).unwrap(), 0);
            assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
        }
    });
}

#[test]
fn an_empty_write_changes_nothing() {
    on_both(|disk, directory| {
        let file = disk
            .open(&directory.join("file"), OpenMode::CreateNew)
            .unwrap();
        file.write_at(&[], 100).unwrap();
        file.write_at(&[b"", b""], 100).unwrap();
        file.write_durable_at(&[b""], 100).unwrap();
        assert_eq!(file.size().unwrap(), 0);
    });
}

#[test]
fn a_size_can_be_cut_and_extended_with_zeros() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_at(&[&[9; 9_000]], 0).unwrap();
        file.set_size(4_100).unwrap();
        file.set_size(9_000).unwrap();
        file.sync_data().unwrap();
        let mut expected = vec![9; 4_100];
        expected.resize(9_000, 0);
        assert_eq!(contents(disk, &path, OpenMode::Read), expected);
        assert_eq!(contents(disk, &path, OpenMode::ReadDevice), expected);
    });
}

#[test]
fn reserved_bytes_read_as_zeros_and_keep_what_was_written() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_at(&[&[9; 5_000]], 0).unwrap();
        file.reserve(100_000).unwrap();
        file.reserve(50_000).unwrap();
        file.write_at(&[&[8; 10]], 60_000).unwrap();
        file.sync_data().unwrap();
        let mut expected = vec![9; 5_000];
        expected.resize(100_000, 0);
        expected[60_000..60_010].fill(8);
        assert_eq!(contents(disk, &path, OpenMode::Read), expected);
        assert_eq!(contents(disk, &path, OpenMode::ReadDevice), expected);
    });
}

#[test]
fn a_handle_for_reading_reserves_nothing() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        disk.open(&path, OpenMode::CreateNew).unwrap();
        for mode in [OpenMode::Read, OpenMode::ReadDevice] {
            let file = disk.open(&path, mode).unwrap();
            assert!(file.reserve(4_096).is_err());
            assert_eq!(file.size().unwrap(), 0);
        }
    });
}

#[test]
fn a_file_that_keeps_its_size_is_not_cut() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_at(&[&[9; 5_000]], 0).unwrap();
        file.keep_size();
        let message = file.set_size(4_999).unwrap_err().to_string();
        assert!(message.contains(path.to_str().unwrap()), "{message}");
        file.set_size(6_000).unwrap();
        file.set_size(5_000).unwrap();
        assert_eq!(contents(disk, &path, OpenMode::Read), [9; 5_000]);
    });
}

#[test]
fn opening_a_missing_file_and_creating_an_existing_one_are_errors_with_the_path() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        for mode in [OpenMode::Read, OpenMode::ReadDevice, OpenMode::ReadWrite] {
            let error = disk.open(&path, mode).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
        }
        disk.open(&path, OpenMode::CreateNew).unwrap();
        let error = disk.open(&path, OpenMode::CreateNew).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        let nowhere = directory.join("missing").join("file");
        assert_eq!(
            disk.open(&nowhere, OpenMode::CreateNew).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn a_handle_for_reading_refuses_to_write() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        disk.open(&path, OpenMode::CreateNew).unwrap();
        for mode in [OpenMode::Read, OpenMode::ReadDevice] {
            let file = disk.open(&path, mode).unwrap();
            assert!(file.write_at(&[b"x"], 0).is_err());
            assert!(file.write_durable_at(&[b"x"], 0).is_err());
            assert!(file.set_size(3).is_err());
            assert_eq!(file.size().unwrap(), 0);
        }
    });
}

#[test]
fn a_rename_replaces_its_target_and_open_handles_follow_the_file() {
    on_both(|disk, directory| {
        let (from, to) = (directory.join("from"), directory.join("to"));
        let moved = disk.open(&from, OpenMode::CreateNew).unwrap();
        moved.write_at(&[b"moved"], 0).unwrap();
        let replaced = disk.open(&to, OpenMode::CreateNew).unwrap();
        replaced.write_at(&[b"replaced"], 0).unwrap();
        disk.rename(&from, &to).unwrap();
        disk.sync_directory(directory).unwrap();
        assert_eq!(sorted_names(disk, directory), ["to"]);
        moved.write_at(&[b"!"], 5).unwrap();
        assert_eq!(contents(disk, &to, OpenMode::Read), b"moved!");
        assert_eq!(
            replaced.size().unwrap(),
            8,
            "an open file outlives its name"
        );
        assert_eq!(
            disk.rename(&from, &to).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn a_removed_file_is_gone_and_its_handles_live_on() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_at(&[b"still here"], 0).unwrap();
        disk.remove(&path).unwrap();
        disk.sync_directory(directory).unwrap();
        assert!(sorted_names(disk, directory).is_empty());
        let mut buffer = [0; 10];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 10);
        assert_eq!(&buffer, b"still here");
        assert_eq!(disk.remove(&path).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn directories_are_made_with_their_parents_and_list_only_their_files() {
    on_both(|disk, directory| {
        let deep: PathBuf = directory.join("a").join("b");
        disk.create_directories(&deep).unwrap();
        disk.create_directories(&deep).unwrap();
        disk.open(&deep.join("file"), OpenMode::CreateNew).unwrap();
        assert_eq!(sorted_names(disk, &deep), ["file"]);
        assert!(
            sorted_names(disk, directory).is_empty(),
            "a directory is not a file"
        );
        let missing = directory.join("missing");
        assert_eq!(disk.list(&missing).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(
            disk.sync_directory(&missing).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn a_directory_has_one_owner_at_a_time() {
    on_both(|disk, directory| {
        let held = disk.lock_directory(directory).unwrap();
        let error = disk.lock_directory(directory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let text = error.to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        assert!(text.contains(directory.to_str().unwrap()), "{text}");
        drop(held);
        let _again = disk.lock_directory(directory).unwrap();
        assert_eq!(sorted_names(disk, directory), ["LOCK"]);
    });
}

#[test]
fn there_is_less_room_than_the_disk_is_large() {
    on_both(|disk, directory| {
        let space = disk.space(directory).unwrap();
        assert!(space.available_bytes > 0);
        assert!(space.available_bytes <= space.total_bytes);
    });
}

#[test]
fn threads_share_a_handle() {
    on_both(|disk, directory| {
        let path = directory.join("file");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        std::thread::scope(|scope| {
            for number in 0..4_u8 {
                let file = &file;
                scope.spawn(move || {
                    for at in 0..32 {
                        let offset = at * 4_000 + u64::from(number) * 1_000;
                        file.write_at(&[&[number; 1_000]], offset).unwrap();
                    }
                });
            }
        });
        let bytes = contents(disk, &path, OpenMode::Read);
        assert_eq!(bytes.len(), 128_000);
        let right = |(at, byte): (usize, &u8)| usize::from(*byte) == at / 1_000 % 4;
        assert!(bytes.iter().enumerate().all(right));
    });
}

/// Any sequence of calls gives the same answers and the same bytes on both.
#[test]
fn a_thousand_random_calls_agree() {
    let real_directory = tempfile::tempdir().unwrap();
    let simulated = SimulatedDisk::new(9);
    let simulated_directory = Path::new("/data");
    simulated.create_directories(simulated_directory).unwrap();
    let mut one = environment::randomness::Random::from_seed(77);
    let mut other = one.clone();
    for step in 0..1_000 {
        let real = random_call(&RealDisk, real_directory.path(), &mut one);
        let simulated = random_call(&simulated, simulated_directory, &mut other);
        assert_eq!(real, simulated, "at step {step}");
    }
}

/// One call and what it gave, as a caller can see it.
fn random_call(
    disk: &dyn Disk,
    directory: &Path,
    random: &mut environment::randomness::Random,
) -> String {
    let path = directory.join(format!("f{}", random.below(4)));
    let other = directory.join(format!("f{}", random.below(4)));
    let (choice, offset) = (random.below(10), random.below(20_000));
    let bytes = vec![random.next_u64() as u8; random.below(9_000) as usize];
    let kind = |error: std::io::Error| error.kind();
    let open = |mode| disk.open(&path, mode).map_err(kind);
    match choice {
        0 => format!("{:?}", open(OpenMode::CreateNew).map(|_| ())),
        1 => format!("{:?}", disk.rename(&path, &other).map_err(kind)),
        2 => format!("{:?}", disk.remove(&path).map_err(kind)),
        3 => format!("{:?}", sorted_names(disk, directory)),
        4 => format!(
            "{:?}",
            open(OpenMode::ReadWrite).map(|it| it.set_size(offset).unwrap())
        ),
        5 => format!(
            "{:?}",
            open(OpenMode::ReadWrite).map(|it| it.write_durable_at(&[&bytes], offset).unwrap())
        ),
        6 => format!(
            "{:?}",
            open(OpenMode::ReadDevice).map(|_| contents(disk, &path, OpenMode::ReadDevice))
        ),
        7 => format!(
            "{:?}",
            open(OpenMode::Read).map(|_| contents(disk, &path, OpenMode::Read))
        ),
        8 => format!(
            "{:?}",
            open(OpenMode::ReadWrite).map(|it| it.reserve(offset + 1).unwrap())
        ),
        _ => format!(
            "{:?}",
            open(OpenMode::ReadWrite).map(|it| it.write_at(&[&bytes], offset).unwrap())
        ),
    }
}
