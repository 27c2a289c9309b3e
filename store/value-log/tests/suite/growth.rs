//! A small log takes little of the disk, and grows in steps.

use crate::support;

use std::path::Path;

use environment::simulated::{Fault, Restart, SimulatedDisk};
use environment::{Disk, OpenMode};
use support::{DIRECTORY, bytes_of, explicit, open, payload, put, segment_path};
use value_log::{Durability, Log, Options, Worker};

const SEGMENT_BYTES: u64 = 1 << 20;
/// One step: a sixty-fourth of a segment.
const STEP_BYTES: u64 = 16 << 10;
const PAYLOAD_BYTES: usize = 1_500;

fn durable() -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES,
        starts_small: true,
        spare_segments: 2,
        worker: Worker::Caller,
        ..explicit()
    }
}

fn cached() -> Options {
    Options {
        durability: Durability::Os,
        ..durable()
    }
}

fn put_all(log: &Log, indices: impl IntoIterator<Item = u64>) {
    for index in indices {
        put(log, index, &payload(index, PAYLOAD_BYTES)).unwrap();
    }
}

/// Bytes of the disk that are in use.
fn used_bytes(disk: &SimulatedDisk) -> u64 {
    match disk.space(Path::new(DIRECTORY)) {
        Ok(space) => space.total_bytes - space.available_bytes,
        // The log makes its directory.
        Err(_) => 0,
    }
}

/// Leaves `free_bytes` of the disk free.
fn leave_free(disk: &SimulatedDisk, free_bytes: u64) {
    disk.set_capacity(used_bytes(disk) + free_bytes);
}

fn log_bytes(log: &Log) -> u64 {
    let segments = log.segments();
    segments.iter().map(|segment| segment.used_bytes).sum()
}

/// Changes the header of the first segment, and mends its checksum.
fn change_header(disk: &SimulatedDisk, change: impl FnOnce(&mut [u8])) {
    let path = segment_path(1);
    let mut header = bytes_of(disk, &path, 0, 48);
    change(&mut header);
    let crc = crc_fast::crc32_iscsi(&header[..44]);
    header[44..].copy_from_slice(&crc.to_le_bytes());
    let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_durable_at(&[&header], 0).unwrap();
}

fn has_spares(disk: &SimulatedDisk) -> bool {
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    names.iter().any(|name| !name.ends_with(".log"))
}

#[test]
fn a_new_log_takes_one_step_of_the_disk() {
    for options in [durable(), cached()] {
        let disk = SimulatedDisk::new(1);
        let before = used_bytes(&disk);
        let (log, ..) = open(&disk, options).unwrap();
        log.work();
        let taken = used_bytes(&disk) - before;
        assert!(taken <= STEP_BYTES + 4_096, "{taken} bytes");
        assert_eq!(log.status().spare_segments, 0);
        assert_eq!(bytes_of(&disk, &segment_path(1), 34, 1), [1]);
    }
}

#[test]
fn a_small_log_takes_twice_what_it_holds_and_a_step() {
    for options in [durable(), cached()] {
        let disk = SimulatedDisk::new(1);
        let before = used_bytes(&disk);
        let (log, ..) = open(&disk, options.clone()).unwrap();
        for index in 1.. {
            put_all(&log, [index]);
            if 2 * log_bytes(&log) + STEP_BYTES > SEGMENT_BYTES {
                break;
            }
            let taken = used_bytes(&disk) - before;
            let most = 2 * log_bytes(&log) + STEP_BYTES + 4_096 + next_bytes(&options);
            assert!(taken <= most, "{taken} bytes for {}", log_bytes(&log));
            assert!(!has_spares(&disk));
        }
        log.work();
        let whole = match options.durability {
            Durability::Durable => 2,
            Durability::Os => 0,
        };
        assert_eq!(log.status().spare_segments, whole, "the first one is whole");
    }
}

/// Room of the next segment, which a log without flushes makes ahead while it grows.
fn next_bytes(options: &Options) -> u64 {
    match options.durability {
        Durability::Durable => 0,
        Durability::Os => STEP_BYTES,
    }
}

#[test]
fn a_log_without_flushes_goes_on_growing_while_the_disk_has_much_room() {
    let disk = SimulatedDisk::new(1);
    let before = used_bytes(&disk);
    let (log, ..) = open(&disk, cached()).unwrap();
    let mut halves = 0;
    for index in 1..=4_000 {
        put_all(&log, [index]);
        log.work();
        let segments = log.segments();
        let active = segments.iter().find(|it| !it.sealed).unwrap();
        let left = (segments.len() as u64 - 1) * SEGMENT_BYTES;
        let grown = (2 * active.used_bytes).clamp(SEGMENT_BYTES / 2, SEGMENT_BYTES);
        let taken = used_bytes(&disk) - before;
        let most = left + grown + next_bytes(&cached()) + STEP_BYTES + 4_096;
        assert!(taken <= most, "{taken} bytes, and {most} at most");
        halves += u32::from(taken < left + SEGMENT_BYTES);
        assert_eq!(log.status().spare_segments, 0);
    }
    assert!(active(&log) > 5);
    assert!(halves > 1_000, "{halves} times less than a whole segment");
    drop(log);
    let (_log, _, seen) = open(&disk, cached()).unwrap();
    assert_eq!(seen.len(), 4_000);
}

#[test]
fn the_next_segment_of_a_log_that_grows_is_there_before_the_present_one_is_full() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 1..=400);
    log.work();
    assert_eq!(active(&log), 1);
    assert!(file_exists(&disk, 2));
    assert!(!file_exists(&disk, 3));
    put_all(&log, 401..=900);
    assert_eq!(active(&log), 2);
}

fn file_exists(disk: &SimulatedDisk, segment: u32) -> bool {
    disk.open(&segment_path(segment), OpenMode::ReadWrite)
        .is_ok()
}

#[test]
fn with_little_room_left_segments_are_made_whole_and_later_they_grow_again() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 1..=700);
    assert_eq!((active(&log), log.status().spare_segments), (2, 0));
    leave_free(&disk, 7 * SEGMENT_BYTES);
    put_all(&log, 701..=800);
    log.work();
    assert_eq!((active(&log), log.status().spare_segments), (2, 2));
    let present = disk.open(&segment_path(2), OpenMode::Read).unwrap();
    assert_eq!(present.allocated_bytes().unwrap(), SEGMENT_BYTES);
    leave_free(&disk, 100 * SEGMENT_BYTES);
    let before = used_bytes(&disk);
    put_all(&log, 801..=4_200);
    log.work();
    assert_eq!(log.status().spare_segments, 0);
    assert_eq!(log.status().failed, None);
    let whole = (u64::from(active(&log)) - 4) * SEGMENT_BYTES;
    let taken = used_bytes(&disk) - before;
    assert!(
        taken < whole,
        "{taken} bytes, and whole ones would be {whole}"
    );
    drop(log);
    let (_log, _, seen) = open(&disk, cached()).unwrap();
    assert_eq!(seen.len(), 4_200);
}

#[test]
fn a_full_segment_and_a_next_one_with_one_step_can_be_opened() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    let room = |log: &Log| SEGMENT_BYTES - log.segments()[0].used_bytes;
    let mut next = 1;
    while room(&log) > 4_096 {
        put_all(&log, [next]);
        next += 1;
    }
    // A frame header and a record's header leave this for the payload.
    let last = payload(next, room(&log) as usize - 100);
    put(&log, next, &last).unwrap();
    log.work();
    assert_eq!((active(&log), room(&log)), (1, 0));
    assert!(file_exists(&disk, 2));
    let disk = disk.restart(Restart::ProcessCrash);
    let (log, _, seen) = open(&disk, cached()).unwrap();
    assert_eq!((seen.len() as u64, active(&log)), (next, 2));
    put_all(&log, next + 1..=next + 300);
}

#[test]
fn a_log_that_is_opened_on_a_full_disk_writes_into_the_room_it_has_reserved() {
    let options = Options {
        reserve_bytes: 64 << 10,
        ..cached()
    };
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, options.clone()).unwrap();
    put_all(&log, 1..=650);
    log.work();
    assert_eq!(active(&log), 2);
    leave_free(&disk, 4_096);
    let disk = disk.restart(Restart::ProcessCrash);
    let (log, ..) = open(&disk, options).unwrap();
    // Half of the segment, but for a step.
    put_all(&log, 651..=740);
    assert_eq!(active(&log), 2);
    let refused = (741..1_200).find_map(|index| put(&log, index, &[7; PAYLOAD_BYTES]).err());
    let refused = refused.expect("nothing more is free");
    assert!(refused.is_shortage(), "{refused}");
    assert_eq!(log.status().failed, None);
}

#[test]
fn the_first_frame_of_an_opening_takes_a_step_from_the_reserve_where_no_other_room_is_left() {
    let options = Options {
        reserve_bytes: 64 << 10,
        ..durable()
    };
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, options.clone()).unwrap();
    put_all(&log, 1..=10);
    log.work();
    leave_free(&disk, 64 << 10);
    let refused = |index: u64, bytes: usize| put(&log, index, &payload(index, bytes)).is_err();
    let first = (11..).find(|index| refused(*index, PAYLOAD_BYTES)).unwrap();
    let full = (first..).find(|index| refused(*index, 1)).unwrap();
    drop(log);
    let (log, _, seen) = open(&disk, options).unwrap();
    assert_eq!(seen.len() as u64, full - 1);
    put(&log, full, &payload(full, PAYLOAD_BYTES)).unwrap();
}

/// That a sealed segment was flushed says nothing about room.
#[test]
fn after_a_step_was_refused_the_log_says_that_it_has_no_room_ahead() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, cached()).unwrap();
    put_all(&log, 1..=500);
    log.work();
    assert!(log.has_room_ahead() && file_exists(&disk, 2));
    leave_free(&disk, 4_096);
    let mut next = 501;
    while active(&log) == 1 {
        put_all(&log, [next]);
        next += 1;
    }
    log.work();
    assert!(!log.has_room_ahead());
    let refused = (next..1_200).find_map(|index| put(&log, index, &[7; PAYLOAD_BYTES]).err());
    assert!(refused.is_some_and(|error| error.is_shortage()));
    log.work();
    assert!(!log.has_room_ahead());
    leave_free(&disk, 4 * SEGMENT_BYTES);
    log.make_room(PAYLOAD_BYTES, 0).unwrap();
    log.work();
    assert!(log.has_room_ahead());
}

#[test]
fn a_small_log_that_is_opened_again_goes_on_growing() {
    for (options, restart) in [
        (durable(), Restart::power_loss()),
        (durable(), Restart::ProcessCrash),
        (cached(), Restart::ProcessCrash),
    ] {
        let mut disk = SimulatedDisk::new(1);
        let mut next = 1;
        for _life in 0..5 {
            let (log, _, seen) = open(&disk, options.clone()).unwrap();
            assert_eq!(seen.len() as u64, next - 1);
            assert!(used_bytes(&disk) <= 2 * log_bytes(&log) + 3 * STEP_BYTES);
            put_all(&log, next..next + 12);
            next += 12;
            disk = disk.restart(restart);
        }
        let (log, _, seen) = open(&disk, options).unwrap();
        assert_eq!((seen.len(), log.segments().len()), (60, 1));
    }
}

#[test]
fn a_group_that_is_larger_than_what_is_ready_makes_the_log_grow_at_once() {
    for worker in [Worker::Caller, Worker::Threads] {
        for options in [durable(), cached()] {
            let options = Options { worker, ..options };
            let disk = SimulatedDisk::new(1);
            let (log, ..) = open(&disk, options.clone()).unwrap();
            put(&log, 1, &payload(1, 700_000)).unwrap();
            put(&log, 2, &payload(2, 200_000)).unwrap();
            log.make_room(300_000, 0).unwrap();
            put(&log, 3, &payload(3, 300_000)).unwrap();
            let ids: Vec<u32> = log.segments().iter().map(|segment| segment.id).collect();
            assert_eq!(ids, [1, 2], "the third does not fit into the first segment");
            log.close().unwrap();
            let (_log, _, seen) = open(&disk, options).unwrap();
            assert_eq!(seen.len(), 3);
        }
    }
}

#[test]
fn room_that_was_made_is_there_on_a_full_disk() {
    for options in [durable(), cached()] {
        let disk = SimulatedDisk::new(1);
        let (log, ..) = open(&disk, options).unwrap();
        put_all(&log, 1..=3);
        log.make_room(400_000, 0).unwrap();
        leave_free(&disk, 0);
        put(&log, 4, &payload(4, 390_000)).unwrap();
        let refusal = put(&log, 5, &payload(5, 390_000)).unwrap_err();
        assert!(refusal.is_shortage(), "{refusal}");
    }
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_and_the_log_goes_on_when_there_is_room() {
    for worker in [Worker::Caller, Worker::Threads] {
        for options in [durable(), cached()] {
            let options = Options { worker, ..options };
            let disk = SimulatedDisk::new(1);
            let (log, ..) = open(&disk, options.clone()).unwrap();
            put_all(&log, 1..=3);
            leave_free(&disk, 0);
            let refused = (4..).find(|&index| {
                let outcome = put(&log, index, &payload(index, PAYLOAD_BYTES));
                outcome.is_err_and(|error| error.is_shortage())
            });
            let refused = refused.unwrap();
            assert!(!log.has_room_ahead());
            assert_eq!(log.status().failed, None);
            leave_free(&disk, 4 * SEGMENT_BYTES);
            put_all(&log, refused..refused + 20);
            log.close().unwrap();
            let (_log, _, seen) = open(&disk, options).unwrap();
            assert_eq!(seen.len() as u64, refused + 19);
        }
    }
}

#[test]
fn a_small_log_that_rotates_stays_small() {
    let disk = SimulatedDisk::new(1);
    let before = used_bytes(&disk);
    let (log, ..) = open(&disk, durable()).unwrap();
    put_all(&log, 1..=3);
    log.rotate().unwrap();
    put_all(&log, 4..=6);
    log.release(&[1]).unwrap();
    log.work();
    let taken = used_bytes(&disk) - before;
    assert!(taken <= 2 * STEP_BYTES, "{taken} bytes");
    assert!(!has_spares(&disk), "the first one was not whole");
}

#[test]
fn a_log_that_is_made_whole_has_its_segments_ready() {
    let disk = SimulatedDisk::new(1);
    let options = Options {
        starts_small: false,
        ..durable()
    };
    let before = used_bytes(&disk);
    let (log, ..) = open(&disk, options).unwrap();
    log.work();
    assert!(used_bytes(&disk) - before >= 3 * SEGMENT_BYTES);
    assert_eq!(bytes_of(&disk, &segment_path(1), 34, 1), [0]);
}

/// A release that does not know of growth writes behind the blocks that are ready, and moves the
/// reach note as if all were.
#[test]
fn frames_behind_what_was_ready_are_kept_when_the_reach_note_covers_them() {
    let disk = SimulatedDisk::new(1);
    let whole = Options {
        starts_small: false,
        ..durable()
    };
    let (log, ..) = open(&disk, whole).unwrap();
    put_all(&log, 1..=30);
    log.close().unwrap();
    change_header(&disk, |header| header[34] = 1);
    let (log, _, seen) = open(&disk, durable()).unwrap();
    assert_eq!(seen.len(), 30);
    put_all(&log, 31..=200);
    log.close().unwrap();
    let (_log, _, seen) = open(&disk, durable()).unwrap();
    assert_eq!(seen.len(), 200);
}

/// Puts until one fails; returns how many were acknowledged.
fn put_until_failure(log: &Log) -> u64 {
    let failed = (1..500).find(|&index| put(log, index, &payload(index, PAYLOAD_BYTES)).is_err());
    failed.unwrap_or(500) - 1
}

#[test]
fn a_failure_at_any_io_while_the_log_grows_loses_no_acknowledged_group() {
    for fault in [Fault::FailedFlush, Fault::ShortWrite { bytes: 100 }] {
        for io in 0..200 {
            let disk = SimulatedDisk::new(1 + io);
            let (log, ..) = open(&disk, durable()).unwrap();
            disk.inject(disk.io_count() + io, fault);
            let acknowledged = put_until_failure(&log);
            drop(log);
            let (log, _, shown) = open(&disk, durable()).unwrap();
            assert!(shown.len() as u64 >= acknowledged, "{fault:?} at {io}");
            drop(log);
            disk.crash();
            let disk = disk.restart(Restart::nothing_kept());
            let (_log, _, seen) = open(&disk, durable()).unwrap();
            assert!(seen.len() >= shown.len(), "{fault:?} at {io}");
        }
    }
}

#[test]
fn a_flush_after_a_failed_one_does_not_vouch_for_groups_in_the_page_cache() {
    for io in 0..60 {
        let disk = SimulatedDisk::new(1 + io);
        let (log, ..) = open(&disk, durable()).unwrap();
        log.close().unwrap();
        // The first segment has written blocks, so that zeros are written for its growth.
        let (log, ..) = open(&disk, cached()).unwrap();
        disk.inject(disk.io_count() + io, Fault::FailedFlush);
        let mut flushed = 0;
        for index in 1..=200 {
            let put = put(&log, index, &payload(index, PAYLOAD_BYTES));
            if put.is_err() || log.flush().is_err() {
                break;
            }
            flushed = index;
        }
        drop(log);
        disk.crash();
        let disk = disk.restart(Restart::nothing_kept());
        let (_log, _, seen) = open(&disk, cached()).unwrap();
        assert!(
            seen.len() as u64 >= flushed,
            "at {io}: {} of {flushed}",
            seen.len()
        );
    }
}

#[test]
fn room_for_a_group_that_fills_a_segment_is_made_while_no_further_segment_can_be_made() {
    for starts_small in [true, false] {
        let disk = SimulatedDisk::new(1);
        let options = Options {
            starts_small,
            ..durable()
        };
        let (log, ..) = open(&disk, options).unwrap();
        put_all(&log, [1]);
        leave_free(&disk, 0);
        let body_bytes = log.group_bytes_max() as usize;
        let made = (0..4).map(|_| log.make_room(body_bytes, 64 << 10));
        assert!(
            made.into_iter()
                .any(|made| made.is_err_and(|it| it.is_shortage()))
                || !starts_small
        );
        leave_free(&disk, 4 * SEGMENT_BYTES);
        log.make_room(body_bytes, 64 << 10).unwrap();
        assert_eq!(log.status().failed, None);
    }
}

#[test]
fn a_rotation_keeps_the_room_that_was_made() {
    for worker in [Worker::Caller, Worker::Threads] {
        for options in [durable(), cached()] {
            let options = Options { worker, ..options };
            let disk = SimulatedDisk::new(1);
            let (log, ..) = open(&disk, options).unwrap();
            put_all(&log, 1..=3);
            log.make_room(400_000, 0).unwrap();
            log.rotate().unwrap();
            leave_free(&disk, 0);
            put(&log, 4, &payload(4, 390_000)).unwrap();
        }
    }
}

#[test]
fn a_rotation_without_room_for_as_much_is_refused_and_the_log_goes_on() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, durable()).unwrap();
    put_all(&log, 1..=3);
    log.make_room(400_000, 0).unwrap();
    leave_free(&disk, 2 * STEP_BYTES);
    let refusal = log.rotate().unwrap_err();
    assert!(refusal.is_shortage(), "{refusal}");
    put(&log, 4, &payload(4, 390_000)).unwrap();
    assert_eq!(active(&log), 1);
    leave_free(&disk, SEGMENT_BYTES);
    log.rotate().unwrap();
    put(&log, 5, &payload(5, 390_000)).unwrap();
    assert_eq!(log.status().failed, None);
}

#[test]
fn a_small_need_is_met_where_a_large_one_is_not() {
    for options in [durable(), cached()] {
        let disk = SimulatedDisk::new(1);
        let (log, ..) = open(&disk, options).unwrap();
        put_all(&log, 1..=3);
        leave_free(&disk, 2 * STEP_BYTES + 4_096);
        assert!(put(&log, 4, &payload(4, 700_000)).is_err());
        put_all(&log, 4..=12);
    }
}

#[test]
fn a_log_whose_first_segment_is_full_makes_segments_ahead() {
    for options in [durable(), cached()] {
        let disk = SimulatedDisk::new(1);
        let (log, ..) = open(&disk, options.clone()).unwrap();
        log.rotate().unwrap();
        // Too little for a log that would go on growing.
        leave_free(&disk, 9 * SEGMENT_BYTES / 2);
        put_all(&log, 1..=900);
        log.work();
        assert!(active(&log) > 1);
        assert_eq!(log.status().spare_segments, 2);
        drop(log);
        let (log, _, seen) = open(&disk, options).unwrap();
        assert_eq!(seen.len(), 900);
        put_all(&log, 901..=1_000);
        log.work();
        assert_eq!(log.status().spare_segments, 2);
    }
}

fn active(log: &Log) -> u32 {
    let segments = log.segments();
    let active = segments.iter().find(|segment| !segment.sealed);
    active.unwrap().id
}

/// A rotation that is refused leaves a next segment with one step. The log then fills its first
/// segment, and meets that next one.
#[test]
fn a_next_segment_with_one_step_grows_with_a_log_that_is_not_small_any_more() {
    for options in [durable(), cached()] {
        let disk = SimulatedDisk::new(1);
        let (log, ..) = open(&disk, options.clone()).unwrap();
        put_all(&log, 1..=3);
        log.make_room(400_000, 0).unwrap();
        leave_free(&disk, 2 * STEP_BYTES);
        assert!(log.rotate().is_err());
        // Too little for a log that would go on growing.
        leave_free(&disk, 4 * SEGMENT_BYTES);
        put_all(&log, 4..=300);
        log.work();
        assert_eq!((active(&log), log.status().spare_segments), (1, 2));
        leave_free(&disk, 0);
        log.rotate().unwrap();
        put_all(&log, 301..=600);
        assert_eq!(log.status().failed, None);
        log.close().unwrap();
        let (_log, _, seen) = open(&disk, options).unwrap();
        assert_eq!(seen.len(), 600);
    }
}

/// The same where the disk is full before the next segment has grown.
#[test]
fn a_next_segment_that_cannot_grow_is_kept_for_later() {
    for options in [durable(), cached()] {
        let disk = SimulatedDisk::new(1);
        let (log, ..) = open(&disk, options).unwrap();
        put_all(&log, 1..=3);
        log.make_room(1_000_000, 0).unwrap();
        for _ in 0..3 {
            leave_free(&disk, 2 * STEP_BYTES);
            assert!(log.rotate().unwrap_err().is_shortage());
        }
        put_all(&log, 4..=300);
        leave_free(&disk, 8 * SEGMENT_BYTES);
        put_all(&log, 301..=1_000);
        assert_eq!(log.status().failed, None);
    }
}
