//! Blocks that are written before they are used, and blocks that are only reserved.

use crate::support;

use std::path::Path;

use environment::Disk;
use environment::simulated::{Restart, SimulatedDisk};
use support::{DIRECTORY, bytes_of, explicit, open, payload, put, segment_path};
use value_log::{Durability, Log, Options, Record, Worker};

const PAYLOAD_BYTES: usize = 1_500;
/// Groups that fill several segments.
const GROUPS: u64 = 200;

/// Each group is flushed.
fn flushed() -> Options {
    Options {
        worker: Worker::Caller,
        ..explicit()
    }
}

/// Groups are in the page cache when they count as done.
fn cached() -> Options {
    Options {
        durability: Durability::Os,
        ..flushed()
    }
}

fn put_all(log: &Log, indices: impl IntoIterator<Item = u64>) {
    for index in indices {
        put(log, index, &payload(index, PAYLOAD_BYTES)).unwrap();
    }
}

/// Byte 33 of a segment's header.
fn blocks(disk: &SimulatedDisk, id: u32) -> u8 {
    bytes_of(disk, &segment_path(id), 33, 1)[0]
}

fn names(disk: &SimulatedDisk, extension: &str) -> Vec<String> {
    let mut names = disk.list(Path::new(DIRECTORY)).unwrap();
    names.retain(|name| name.ends_with(extension));
    names.sort();
    names
}

fn active(log: &Log) -> u32 {
    let segments = log.segments();
    let active = segments.iter().find(|segment| !segment.sealed);
    active.unwrap().id
}

fn log_bytes(log: &Log) -> u64 {
    let segments = log.segments();
    let used = segments.iter().map(|segment| segment.used_bytes);
    used.sum()
}

#[test]
fn without_flushes_little_more_than_the_groups_is_written() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 1..=GROUPS);
    let segments = log.segments().len() as u64 + 2;
    assert!(segments > 6, "{segments}");
    let written = disk.counters().bytes_written;
    let notes = segments * 2 * 4_096;
    assert!(
        written < log_bytes(&log) + notes,
        "{written} bytes for {} of groups",
        log_bytes(&log)
    );
}

#[test]
fn where_room_cannot_be_reserved_zeros_are_written() {
    let disk = SimulatedDisk::new(1);
    disk.refuse_reservations();
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 1..=GROUPS);
    assert!(disk.counters().bytes_written > 2 * GROUPS * PAYLOAD_BYTES as u64);
    assert_eq!(blocks(&disk, active(&log)), 0);
    log.close().unwrap();
    let (_log, _, seen) = open(&disk, cached()).unwrap();
    assert_eq!(seen.len() as u64, GROUPS);
}

#[test]
fn a_full_disk_takes_the_groups_for_which_room_was_reserved() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    log.work();
    let space = disk.space(Path::new(DIRECTORY)).unwrap();
    disk.set_capacity(space.total_bytes - space.available_bytes);
    let space = disk.space(Path::new(DIRECTORY)).unwrap();
    assert_eq!(space.available_bytes, 0);
    // The active segment, and the next one.
    let fits = 2 * (explicit().segment_bytes - 4_096) / 2_048;
    put_all(&log, 1..=fits);
    let refusal = (fits + 1..).find_map(|index| {
        let outcome = put(&log, index, &payload(index, PAYLOAD_BYTES));
        outcome.err()
    });
    assert!(refusal.unwrap().is_shortage());
    assert_eq!(log.status().failed, None);
}

/// Fills segments, and releases each as soon as it is full.
fn fill_and_release(log: &Log) {
    for index in 1..=GROUPS {
        put_all(log, [index]);
        let segments = log.segments();
        let sealed: Vec<u32> = segments
            .iter()
            .filter(|segment| segment.sealed)
            .map(|segment| segment.id)
            .collect();
        log.release(&sealed).unwrap();
    }
    assert!(active(log) > 5);
}

#[test]
fn where_room_cannot_be_reserved_released_segments_are_used_again() {
    let disk = SimulatedDisk::new(1);
    disk.refuse_reservations();
    let (log, ..) = open(&disk, cached()).unwrap();
    fill_and_release(&log);
    let most = GROUPS * 2_048 + 3 * explicit().segment_bytes;
    let written = disk.counters().bytes_written;
    assert!(
        written < most,
        "{written} bytes, and zeros for three files at most"
    );
}

#[test]
fn released_segments_without_flushes_give_their_room_back() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    fill_and_release(&log);
    assert_eq!(names(&disk, ".spare"), Vec::<String>::new());
    assert!(disk.list(Path::new(DIRECTORY)).unwrap().len() <= 3);
}

#[test]
fn a_reserved_file_that_is_no_segment_does_not_outlive_its_opening() {
    let options = Options {
        spare_segments: 3,
        ..cached()
    };
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, options.clone()).unwrap();
    log.work();
    put_all(&log, 1..=3);
    log.work();
    assert_eq!(names(&disk, ".making").len(), 2);
    drop(log);
    let disk = disk.restart(Restart::ProcessCrash);
    let (log, _, seen) = open(&disk, flushed()).unwrap();
    assert_eq!(seen.len(), 3);
    drop(log);
    assert_eq!(names(&disk, ".making"), Vec::<String>::new());
}

#[test]
fn a_log_that_begins_to_flush_leaves_a_reserved_segment_at_once() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 1..=3);
    let reserved = active(&log);
    assert_eq!(blocks(&disk, reserved), 1);
    log.close().unwrap();
    let (log, ..) = open(&disk, flushed()).unwrap();
    assert!(active(&log) > reserved);
    assert_eq!(blocks(&disk, active(&log)), 0);
    let before = disk.counters().journal_commits;
    put_all(&log, 4..=6);
    assert_eq!(disk.counters().journal_commits, before);
    log.close().unwrap();
    let (_log, _, seen) = open(&disk, flushed()).unwrap();
    assert_eq!(seen.len(), 6);
}

#[test]
fn a_log_that_begins_to_flush_on_a_full_disk_stays_where_it_is() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 1..=3);
    let reserved = active(&log);
    log.close().unwrap();
    drop(log);
    disk.set_capacity(4_096);
    let (log, ..) = open(&disk, flushed()).unwrap();
    assert_eq!(active(&log), reserved);
    put_all(&log, 4..=6);
    log.close().unwrap();
    let (_log, _, seen) = open(&disk, flushed()).unwrap();
    assert_eq!(seen.len(), 6);
}

#[test]
fn a_log_that_no_longer_flushes_uses_up_its_written_files() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, flushed()).unwrap();
    put_all(&log, 1..=3);
    log.work();
    log.close().unwrap();
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 4..=GROUPS);
    assert_eq!(names(&disk, ".spare"), Vec::<String>::new());
    assert_eq!(blocks(&disk, active(&log)), 1);
    log.close().unwrap();
    let (_log, _, seen) = open(&disk, cached()).unwrap();
    assert_eq!(seen.len() as u64, GROUPS);
}

#[test]
fn a_sorted_segment_gets_no_zeros_even_where_each_group_is_flushed() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, flushed()).unwrap();
    put_all(&log, 1..=3);
    log.work();
    let before = disk.counters().bytes_written;
    let mut relocation = log.relocate(0).unwrap();
    let record = Record {
        kind: 9,
        parts: &[b"survivor"],
    };
    let position = relocation.append(record).unwrap();
    let ids = relocation.finish().unwrap();
    let written = disk.counters().bytes_written - before;
    assert!(written < 3 * 4_096, "{written}");
    assert_eq!(log.read(position, 0).unwrap().payload, &b"survivor"[..]);
    let path = Path::new(DIRECTORY).join(format!("{:08x}.sorted", ids[0]));
    assert_eq!(bytes_of(&disk, &path, 33, 1), [1]);
}

#[test]
fn a_sorted_segment_takes_the_room_of_what_it_holds() {
    for options in [flushed(), cached()] {
        let disk = SimulatedDisk::new(1);
        let (log, ..) = open(&disk, options.clone()).unwrap();
        put_all(&log, 1..=3);
        log.work();
        let available = || disk.space(Path::new(DIRECTORY)).unwrap().available_bytes;
        let before = available();
        let mut relocation = log.relocate(0).unwrap();
        let value = payload(1, 9_000);
        let parts = [&value[..]];
        let position = relocation
            .append(Record {
                kind: 9,
                parts: &parts,
            })
            .unwrap();
        relocation.finish().unwrap();
        let taken = before - available();
        assert!((9_000..5 * 4_096).contains(&taken), "{taken} bytes");
        drop(log);
        let disk = disk.restart(Restart::power_loss());
        let (log, ..) = open(&disk, options).unwrap();
        assert_eq!(log.read(position, 0).unwrap().payload, value);
    }
}
