//! Making a segment fails for want of a resource: the log is unharmed, and continues
//! by itself.

use crate::support;

use std::path::Path;
use std::time::Duration;

use environment::Disk;
use environment::simulated::SimulatedDisk;
use support::{DIRECTORY, explicit, open, payload, put};
use value_log::{Error, Log, Options, Worker};

/// EMFILE, ENFILE, ENOMEM, EACCES and EROFS of Linux.
const NUMBERS: [i32; 5] = [24, 23, 12, 13, 30];
const PAYLOAD_BYTES: usize = 7000;

fn by_caller() -> Options {
    Options {
        worker: Worker::Caller,
        ..explicit()
    }
}

/// Puts numbered groups until one is refused; returns how many there are and why.
fn fill(log: &Log, from: u64) -> (u64, Error) {
    (from..)
        .find_map(|index| {
            let outcome = put(log, index, &payload(index, PAYLOAD_BYTES));
            outcome.err().map(|error| (index, error))
        })
        .unwrap()
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.list(Path::new(DIRECTORY)).unwrap();
    names.sort();
    names
}

/// A refusal may come from an attempt of before the relief: the next one is made.
fn put_soon(log: &Log, index: u64) {
    let soon = (0..60_000).any(|_| {
        let outcome = put(log, index, &payload(index, PAYLOAD_BYTES));
        if let Err(error) = &outcome {
            assert!(error.is_shortage(), "{error}");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        outcome.is_ok()
    });
    assert!(soon, "the log does not go on");
}

#[test]
fn a_log_that_can_open_no_further_segment_goes_on_when_it_can() {
    for options in [explicit(), by_caller()] {
        for number in NUMBERS {
            let disk = SimulatedDisk::new(number as u64);
            let (log, _, _) = open(&disk, options.clone()).unwrap();
            let _lock = disk.lock_directory(Path::new(DIRECTORY)).unwrap();
            let (written, refusal) = {
                put(&log, 0, b"before").unwrap();
                disk.fail_opens(Some(number));
                fill(&log, 1)
            };
            assert!(written >= 8, "what is prepared is used: {written}");
            assert!(matches!(refusal, Error::NoSegment { .. }), "{refusal}");
            // The pool's thread may have been about to open the spare that it had made.
            let text = refusal.to_string();
            assert!(
                text.contains(".making") || text.contains(".spare"),
                "{text}"
            );
            for _ in 0..3 {
                assert!(
                    put(&log, written, &payload(0, 20_000))
                        .unwrap_err()
                        .is_shortage()
                );
                assert!(log.rotate().unwrap_err().is_shortage());
                assert!(log.make_room(20_000, 0).unwrap_err().is_shortage());
            }
            put(&log, written, b"there is room for this").unwrap();
            assert_eq!(log.status().failed, None);
            disk.fail_opens(None);
            for index in written + 1..written + 30 {
                put_soon(&log, index);
            }
            log.close().unwrap();
            drop((log, _lock));
            let (_log, recovered, seen) = open(&disk, options.clone()).unwrap();
            assert!(recovered.clean);
            assert_eq!(seen.len() as u64, written + 30);
        }
    }
}

#[test]
fn attempts_without_a_descriptor_leave_no_file_behind() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, by_caller()).unwrap();
    let _lock = disk.lock_directory(Path::new(DIRECTORY)).unwrap();
    disk.fail_opens(Some(NUMBERS[0]));
    let (written, _) = fill(&log, 0);
    disk.fail_opens(None);
    let before = names(&disk);
    disk.fail_opens(Some(NUMBERS[0]));
    for _ in 0..20 {
        log.rotate().unwrap_err();
    }
    disk.fail_opens(None);
    assert_eq!(names(&disk), before);
    put_soon(&log, written);
}

#[test]
fn a_spare_that_cannot_be_opened_stays_a_spare() {
    let options = Options {
        spare_segments: 3,
        ..by_caller()
    };
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, options).unwrap();
    let _lock = disk.lock_directory(Path::new(DIRECTORY)).unwrap();
    disk.fail_opens(Some(NUMBERS[0]));
    let (written, _) = fill(&log, 0);
    let spares = log.status().spare_segments;
    assert_eq!(spares, 2, "both are there, and neither is open");
    disk.fail_opens(None);
    put_soon(&log, written);
}

#[test]
fn a_quota_that_is_used_up_is_a_full_disk() {
    for options in [explicit(), by_caller()] {
        let disk = SimulatedDisk::new(5);
        disk.set_quota(Some(300 << 10));
        let (log, _, _) = open(&disk, options.clone()).unwrap();
        let (written, refusal) = fill(&log, 0);
        assert!(written > 20, "{written}");
        assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
        assert!(refusal.to_string().contains("quota"), "{refusal}");
        assert_eq!(log.status().failed, None);
        disk.set_quota(None);
        put_soon(&log, written);
        log.close().unwrap();
        let (_log, _, seen) = open(&disk, options).unwrap();
        assert_eq!(seen.len() as u64, written + 1);
    }
}

#[test]
fn segments_are_made_again_after_a_shortage_although_no_caller_asks() {
    let disk = SimulatedDisk::new(5);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let _lock = disk.lock_directory(Path::new(DIRECTORY)).unwrap();
    disk.fail_opens(Some(NUMBERS[0]));
    fill(&log, 0);
    disk.fail_opens(None);
    let made = (0..600).any(|_| {
        std::thread::park_timeout(Duration::from_millis(100));
        log.status().spare_segments > 0
    });
    assert!(made, "the log has no segment ahead of need");
}
