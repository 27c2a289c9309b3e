//! Limits on the loss of data in a crash of the simulated disk.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use environment::simulated::{Fault, Restart, SimulatedDisk, is_crash};
use environment::{Disk, File, OpenMode};

const DIRECTORY: &str = "/data";
const PATH: &str = "/data/file";

/// A disk with one file; its name and bytes are durable.
fn disk_with_file(seed: u64, bytes: &[u8]) -> (SimulatedDisk, Arc<dyn File>) {
    let disk = SimulatedDisk::new(seed);
    disk.create_directories(Path::new(DIRECTORY)).unwrap();
    let file = disk.open(Path::new(PATH), OpenMode::CreateNew).unwrap();
    file.write_at(&[bytes], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    (disk, file)
}

fn contents(disk: &SimulatedDisk, mode: OpenMode) -> Vec<u8> {
    let file = disk.open(Path::new(PATH), mode).unwrap();
    let mut buffer = vec![0; file.size().unwrap() as usize];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), buffer.len());
    buffer
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    disk.list(Path::new(DIRECTORY)).unwrap()
}

const POWER_LOSSES: [Restart; 5] = [
    Restart::power_loss(),
    Restart::power_loss_within_a_sector(),
    Restart::power_loss_without_journal(),
    Restart::nothing_kept(),
    Restart::everything_kept(),
];

#[test]
fn synced_bytes_survive_every_loss_of_power() {
    for seed in 0..50 {
        let (disk, file) = disk_with_file(seed, &[1; 10_000]);
        file.write_durable_at(&[&[2; 3_000]], 9_000).unwrap();
        let mut expected = vec![1; 9_000];
        expected.resize(12_000, 2);
        for loss in POWER_LOSSES {
            let after = disk.restart(loss);
            assert_eq!(
                contents(&after, OpenMode::Read),
                expected,
                "{}",
                after.trace()
            );
            assert_eq!(contents(&after, OpenMode::ReadDevice), expected);
        }
    }
}

#[test]
fn bytes_that_were_not_synced_are_sometimes_there_and_sometimes_not() {
    let (disk, file) = disk_with_file(3, &[1; 4_096 * 4]);
    file.write_at(&[&[2; 4_096 * 4]], 0).unwrap();
    let outcomes: BTreeSet<Vec<u8>> = (0..300)
        .map(|_| contents(&disk.restart(Restart::power_loss()), OpenMode::Read))
        .collect();
    assert!(outcomes.contains(&vec![1; 4_096 * 4]), "all lost");
    assert!(outcomes.contains(&vec![2; 4_096 * 4]), "all kept");
    assert!(
        outcomes.iter().any(|it| it[0] == 1 && it[4_096 * 3] == 2),
        "reordered"
    );
    assert!(outcomes.iter().any(|it| it[0] != it[4_095]), "torn");
    assert!(outcomes.len() > 50, "{} different outcomes", outcomes.len());
}

#[test]
fn a_process_crash_loses_nothing_and_makes_nothing_durable() {
    let (disk, file) = disk_with_file(4, b"old");
    file.write_at(&[b"new"], 0).unwrap();
    let after = disk.restart(Restart::ProcessCrash);
    assert_eq!(contents(&after, OpenMode::Read), b"new");
    let later = after.restart(Restart::nothing_kept());
    assert_eq!(contents(&later, OpenMode::Read), b"old");
}

#[test]
fn a_created_file_vanishes_without_a_directory_sync_however_well_it_was_synced() {
    let (disk, _file) = disk_with_file(5, b"x");
    let new = disk
        .open(Path::new("/data/new"), OpenMode::CreateNew)
        .unwrap();
    new.write_durable_at(&[b"bytes"], 0).unwrap();
    assert_eq!(names(&disk.restart(Restart::nothing_kept())), ["file"]);
    let seen: BTreeSet<usize> = (0..50)
        .map(|_| names(&disk.restart(Restart::power_loss())).len())
        .collect();
    assert_eq!(seen, BTreeSet::from([1, 2]));
}

#[test]
fn a_rename_is_never_half_done() {
    let (disk, _file) = disk_with_file(6, b"old");
    let new = disk
        .open(Path::new("/data/new"), OpenMode::CreateNew)
        .unwrap();
    new.write_durable_at(&[b"new"], 0).unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    disk.rename(Path::new("/data/new"), Path::new(PATH))
        .unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        let after = disk.restart(Restart::power_loss_without_journal());
        let outcome = (names(&after), contents(&after, OpenMode::Read));
        let before = (vec!["file".to_owned(), "new".to_owned()], b"old".to_vec());
        assert!(outcome == before || outcome == (vec!["file".to_owned()], b"new".to_vec()));
        seen.insert(outcome);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_journal_keeps_names_in_order_and_its_absence_does_not() {
    let disk = SimulatedDisk::new(7);
    disk.create_directories(Path::new(DIRECTORY)).unwrap();
    for name in ["a", "b", "c"] {
        disk.open(&Path::new(DIRECTORY).join(name), OpenMode::CreateNew)
            .unwrap();
    }
    let seen = |restart| -> BTreeSet<Vec<String>> {
        (0..200).map(|_| names(&disk.restart(restart))).collect()
    };
    assert_eq!(seen(Restart::power_loss()).len(), 4, "the four prefixes");
    assert_eq!(
        seen(Restart::power_loss_without_journal()).len(),
        8,
        "all subsets"
    );
}

#[test]
fn a_cut_that_was_not_synced_may_be_undone() {
    let (disk, file) = disk_with_file(8, &[3; 9_000]);
    file.set_size(100).unwrap();
    let fork = disk.fork();
    let sizes: BTreeSet<usize> = (0..100)
        .map(|_| contents(&fork.restart(Restart::power_loss()), OpenMode::Read).len())
        .collect();
    assert_eq!(sizes, BTreeSet::from([100, 9_000]));
    file.sync_data().unwrap();
    assert_eq!(
        contents(&disk.restart(Restart::nothing_kept()), OpenMode::Read),
        [3; 100]
    );
}

#[test]
fn the_crash_happens_at_its_io_and_nothing_works_afterwards() {
    let (disk, file) = disk_with_file(9, b"x");
    let next = disk.io_count();
    disk.crash_at(next + 1);
    file.write_at(&[b"y"], 0).unwrap();
    assert!(!disk.has_crashed());
    assert!(is_crash(&file.write_durable_at(&[b"z"], 0).unwrap_err()));
    assert!(disk.has_crashed());
    assert!(is_crash(&file.read_at(&mut [0], 0).unwrap_err()));
    assert!(is_crash(
        &disk.open(Path::new(PATH), OpenMode::Read).unwrap_err()
    ));
    assert!(is_crash(&disk.list(Path::new(DIRECTORY)).unwrap_err()));
    assert_eq!(disk.io_count(), next + 2, "what fails is not counted");
    let after = disk.restart(Restart::power_loss());
    assert!(is_crash(&file.size().unwrap_err()), "old handles stay dead");
    assert_eq!(after.io_count(), 0);
}

#[test]
fn an_interrupted_durable_write_may_leave_a_part() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk_with_file(seed, &[1; 8_192]);
        disk.crash_at(disk.io_count());
        file.write_durable_at(&[&[2; 8_192]], 0).unwrap_err();
        let bytes = contents(&disk.restart(Restart::power_loss()), OpenMode::Read);
        outcomes.insert((bytes[0], bytes[4_095], bytes[4_096], bytes[8_191]));
    }
    assert!(outcomes.contains(&(1, 1, 1, 1)));
    assert!(outcomes.contains(&(2, 2, 2, 2)));
    assert!(
        outcomes.contains(&(1, 1, 2, 2)),
        "the second block without the first"
    );
    assert!(outcomes.contains(&(2, 1, 1, 1)), "a torn first block");
}

#[test]
fn a_sector_is_whole_unless_the_loss_shreds_it() {
    let rubbish = |restart| {
        let (disk, file) = disk_with_file(21, &[1; 4_096]);
        file.write_at(&[&[2; 4_096]], 0).unwrap();
        let seen = (0..100).map(|_| contents(&disk.restart(restart), OpenMode::Read));
        seen.filter(|bytes| bytes.iter().any(|&byte| byte > 2))
            .count()
    };
    assert_eq!(rubbish(Restart::power_loss()), 0);
    assert!(rubbish(Restart::power_loss_within_a_sector()) > 5);
}

#[test]
fn rewriting_a_block_with_the_same_prefix_never_harms_the_prefix() {
    for seed in 0..300 {
        let (disk, file) = disk_with_file(seed, &[1; 700]);
        let mut block = vec![1; 700];
        block.resize(4_000, 2);
        disk.crash_at(disk.io_count());
        file.write_durable_at(&[&block], 0).unwrap_err();
        let after = disk.restart(Restart::power_loss());
        assert_eq!(
            contents(&after, OpenMode::Read)[..700],
            [1; 700],
            "{}",
            after.trace()
        );
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let story = |seed| {
        let (disk, file) = disk_with_file(seed, &[1; 20_000]);
        disk.crash_at(disk.io_count() + 1);
        file.write_at(&[&[2; 20_000]], 0).unwrap();
        file.sync_data().unwrap_err();
        let after = disk.restart(Restart::power_loss());
        (contents(&after, OpenMode::Read), after.trace().to_string())
    };
    assert_eq!(story(12), story(12));
    assert_ne!(story(12).0, story(13).0);
}

#[test]
fn a_fork_goes_its_own_way() {
    let (disk, file) = disk_with_file(14, b"base");
    let _lock = disk.lock_directory(Path::new(DIRECTORY)).unwrap();
    file.write_at(&[b"dirt"], 0).unwrap();
    let fork = disk.fork();
    assert_eq!(fork.io_count(), 0);
    fork.lock_directory(Path::new(DIRECTORY)).unwrap();
    fork.open(Path::new(PATH), OpenMode::ReadWrite)
        .unwrap()
        .write_at(&[b"fork"], 0)
        .unwrap();
    assert_eq!(contents(&disk, OpenMode::Read), b"dirt");
    assert_eq!(contents(&fork, OpenMode::Read), b"fork");
    assert_eq!(
        contents(&fork.restart(Restart::nothing_kept()), OpenMode::Read),
        b"base"
    );
}

#[test]
fn after_a_failed_flush_the_cache_lies_and_a_second_sync_changes_nothing() {
    let mut cache_lied = 0;
    for seed in 0..50 {
        let (disk, file) = disk_with_file(seed, &[1; 4_096]);
        disk.inject(disk.io_count(), Fault::FailedFlush);
        file.write_at(&[&[2; 4_096]], 0).unwrap();
        let error = file.sync_data().unwrap_err();
        assert!(error.to_string().contains(PATH), "{error}");
        file.sync_data().unwrap();
        assert_eq!(contents(&disk, OpenMode::Read), [2; 4_096]);
        let device = contents(&disk, OpenMode::ReadDevice);
        cache_lied += u32::from(device == [1; 4_096]);
        assert_eq!(
            contents(&disk.restart(Restart::everything_kept()), OpenMode::Read),
            device
        );
        disk.evict_clean_pages();
    }
    assert!((1..50).contains(&cache_lied), "lost in {cache_lied} of 50");
}

#[test]
fn after_a_failed_flush_the_device_has_any_version_since_the_last() {
    let mut versions = BTreeSet::new();
    for seed in 0..100 {
        let (disk, file) = disk_with_file(seed, &[1; 4_096]);
        file.write_at(&[&[2; 4_096]], 0).unwrap();
        file.write_at(&[&[3; 4_096]], 0).unwrap();
        disk.inject(disk.io_count(), Fault::FailedFlush);
        file.sync_data().unwrap_err();
        assert_eq!(contents(&disk, OpenMode::Read), [3; 4_096]);
        let device = contents(&disk, OpenMode::ReadDevice);
        assert_eq!(device, [device[0]; 4_096]);
        versions.insert(device[0]);
    }
    assert!(versions.into_iter().eq([1, 2, 3]));
}

#[test]
fn a_write_within_a_page_that_a_kill_interrupts_is_whole_or_missing() {
    let (mut within, mut across) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..200 {
        for (offset, outcomes) in [(3_996, &mut within), (4_000, &mut across)] {
            let (disk, file) = disk_with_file(seed, &[1; 8_192]);
            disk.keep_pages_whole();
            disk.crash_at(disk.io_count());
            file.write_at(&[&[2; 100]], offset).unwrap_err();
            let bytes = contents(&disk.restart(Restart::ProcessCrash), OpenMode::Read);
            outcomes.insert(bytes.iter().filter(|&&byte| byte == 2).count());
        }
    }
    assert!(within.into_iter().eq([0, 100]));
    assert!(across.len() > 10, "a write into two pages ends anywhere");
}

#[test]
fn eviction_after_a_failed_flush_shows_the_loss() {
    let (disk, file) = disk_with_file(2, &[1; 4_096]);
    disk.inject(0, Fault::FailedFlush);
    file.write_durable_at(&[&[2; 4_096]], 0).unwrap_err();
    let device = contents(&disk, OpenMode::ReadDevice);
    assert_eq!(contents(&disk, OpenMode::Read), [2; 4_096]);
    disk.evict_clean_pages();
    assert_eq!(contents(&disk, OpenMode::Read), device);
}

#[test]
fn a_failed_directory_sync_makes_the_disk_read_only_until_the_machine_restarts() {
    let (disk, file) = disk_with_file(1, b"x");
    disk.open(Path::new("/data/new"), OpenMode::CreateNew)
        .unwrap();
    disk.inject(disk.io_count(), Fault::FailedFlush);
    disk.sync_directory(Path::new(DIRECTORY)).unwrap_err();
    assert!(disk.sync_directory(Path::new(DIRECTORY)).is_err());
    let error = file.write_at(&[b"y"], 0).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(contents(&disk, OpenMode::Read), b"x");
    let same_kernel = disk.restart(Restart::ProcessCrash);
    assert!(same_kernel.remove(Path::new(PATH)).is_err());
    let rebooted = same_kernel.restart(Restart::nothing_kept());
    assert_eq!(names(&rebooted), ["file"]);
    rebooted.remove(Path::new(PATH)).unwrap();
}

#[test]
fn a_device_that_ignores_a_flush_is_believed_until_the_power_goes() {
    let (disk, file) = disk_with_file(1, b"old");
    disk.inject(disk.io_count(), Fault::IgnoredFlush);
    file.write_durable_at(&[b"new"], 0).unwrap();
    assert_eq!(contents(&disk, OpenMode::ReadDevice), b"new");
    assert_eq!(
        contents(&disk.restart(Restart::nothing_kept()), OpenMode::Read),
        b"old"
    );
}

#[test]
fn a_short_write_leaves_its_first_bytes() {
    let (disk, file) = disk_with_file(15, b"aaaaaa");
    disk.inject(disk.io_count(), Fault::ShortWrite { bytes: 2 });
    file.write_durable_at(&[b"bb", b"bb"], 1).unwrap_err();
    assert_eq!(contents(&disk, OpenMode::Read), b"abbaaa");
    file.write_durable_at(&[b"cc"], 0).unwrap();
    assert_eq!(contents(&disk, OpenMode::Read), b"ccbaaa");
}

#[test]
fn a_full_disk_takes_overwrites_and_refuses_growth() {
    let (disk, file) = disk_with_file(16, &[1; 8_192]);
    disk.set_capacity(3 * 4_096);
    assert_eq!(
        disk.space(Path::new(DIRECTORY)).unwrap().available_bytes,
        4_096
    );
    let error = file.write_at(&[&[2; 12_288]], 4_096).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(file.size().unwrap(), 12_288, "what fitted is there");
    file.write_durable_at(&[&[3; 12_288]], 0).unwrap();
    assert_eq!(disk.space(Path::new(DIRECTORY)).unwrap().available_bytes, 0);
    drop(file);
    disk.remove(Path::new(PATH)).unwrap();
    assert_eq!(
        disk.space(Path::new(DIRECTORY)).unwrap().available_bytes,
        12_288
    );
}

#[test]
fn a_full_disk_takes_writes_to_reserved_bytes() {
    let (disk, file) = disk_with_file(16, &[1; 4_096]);
    let available = |disk: &SimulatedDisk| {
        let space = disk.space(Path::new(DIRECTORY)).unwrap();
        space.available_bytes
    };
    disk.set_capacity(4 * 4_096);
    let error = file.reserve(5 * 4_096).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(file.size().unwrap(), 4_096, "a refusal changes nothing");
    file.reserve(4 * 4_096).unwrap();
    assert_eq!(available(&disk), 0);
    file.write_durable_at(&[&[2; 4_096]], 8_192).unwrap();
    file.write_at(&[&[3; 4_096]], 12_288).unwrap();
    let after = disk.restart(Restart::power_loss());
    assert_eq!(contents(&after, OpenMode::Read)[8_192..12_288], [2; 4_096]);
    assert_eq!(available(&after), 0, "the room survives with the size");
}

#[test]
fn a_quota_refuses_a_reservation_as_it_refuses_a_write() {
    let (disk, file) = disk_with_file(16, &[1; 4_096]);
    disk.set_quota(Some(2 * 4_096));
    let error = file.reserve(3 * 4_096).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded);
    file.reserve(2 * 4_096).unwrap();
}

#[test]
fn a_flipped_bit_is_seen_by_everyone_and_stays() {
    let (disk, _file) = disk_with_file(17, &[0; 5_000]);
    disk.flip_bit(Path::new(PATH), 4_321, 3);
    for mode in [OpenMode::Read, OpenMode::ReadDevice] {
        assert_eq!(contents(&disk, mode)[4_321], 8);
    }
    let after = disk.restart(Restart::power_loss());
    assert_eq!(contents(&after, OpenMode::Read)[4_321], 8);
}

#[test]
fn an_unreadable_sector_is_healed_by_a_write() {
    let (disk, file) = disk_with_file(18, &[1; 8_192]);
    disk.fail_reads(Path::new(PATH), 5_000..5_001);
    let mut buffer = [0; 8_192];
    assert!(file.read_at(&mut buffer, 0).is_err());
    assert_eq!(file.read_at(&mut buffer[..4_608], 0).unwrap(), 4_608);
    assert!(
        file.read_at(&mut buffer[..1], 4_608).is_err(),
        "its whole sector"
    );
    file.write_at(&[&[2; 4_096]], 4_096).unwrap();
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 8_192);
}

#[test]
fn only_pre_written_blocks_commit_with_one_flush() {
    let (disk, file) = disk_with_file(19, &[0; 16_384]);
    let before = disk.counters();
    for at in 0..4 {
        file.write_durable_at(&[&[1; 100]], at * 4_096).unwrap();
    }
    let mut after = disk.counters();
    assert_eq!(after.durable_flushes - before.durable_flushes, 4);
    assert_eq!(after.blocks_flushed - before.blocks_flushed, 4);
    assert_eq!(after.journal_commits, before.journal_commits);
    file.write_durable_at(&[&[1; 100]], 16_384).unwrap();
    assert_eq!(
        disk.counters().journal_commits,
        after.journal_commits + 1,
        "growth"
    );
    after = disk.counters();
    file.set_size(40_000).unwrap();
    file.sync_data().unwrap();
    file.write_durable_at(&[&[1; 100]], 30_000).unwrap();
    assert_eq!(
        disk.counters().journal_commits,
        after.journal_commits + 2,
        "a size, a hole"
    );
}

#[test]
fn a_lock_dies_with_its_machine() {
    let (disk, _file) = disk_with_file(20, b"x");
    let held = disk.lock_directory(Path::new(DIRECTORY)).unwrap();
    let after = disk.restart(Restart::power_loss());
    let _new = after.lock_directory(Path::new(DIRECTORY)).unwrap();
    drop(held);
    assert!(
        after.lock_directory(Path::new(DIRECTORY)).is_err(),
        "the old owner frees nothing"
    );
}
