//! A log with a caller that does the work: nothing happens by itself.

use crate::support;

use std::sync::{Arc, Mutex};

use environment::simulated::{Restart, SimulatedDisk};
use support::{explicit, open, payload};
use value_log::{Body, Log, Options, Record, Sequence, Tag, Worker};

fn options() -> Options {
    Options {
        worker: Worker::Caller,
        ..explicit()
    }
}

fn tag(index: u64) -> Tag {
    Tag {
        index,
        ..Tag::default()
    }
}

fn append(log: &Log, index: u64) -> Sequence {
    let payload = payload(index, 3000);
    let record = Record {
        kind: 1,
        parts: &[&payload],
    };
    log.append_group(tag(index), &[record]).unwrap().sequence
}

#[test]
fn groups_are_flushed_only_when_the_caller_works() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, options()).unwrap();
    let notified = Arc::new(Mutex::new(Vec::new()));
    let notices = Arc::clone(&notified);
    log.on_durable(Box::new(move |outcome| {
        notices.lock().unwrap().extend(outcome);
    }));
    let before = disk.io_count();
    let first = append(&log, 1);
    let second = append(&log, 2);
    assert_eq!((log.durable() < first, disk.io_count()), (true, before));
    log.work();
    assert_eq!(*notified.lock().unwrap(), [second], "one flush for both");
    append(&log, 3);
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (_log, recovered, seen) = open(&disk, options()).unwrap();
    assert_eq!((recovered.tag.index, seen.len()), (2, 2));
}

#[test]
fn two_lives_with_one_seed_do_the_same_to_the_disk() {
    let life = || {
        let disk = SimulatedDisk::new(7);
        for _ in 0..2 {
            let (log, ..) = open(&disk, options()).unwrap();
            for index in 1..60 {
                let sequence = append(&log, index);
                if index % 5 == 0 {
                    log.wait_durable(sequence).unwrap();
                }
                if index % 25 == 0 {
                    log.rotate().unwrap();
                }
            }
            log.close().unwrap();
        }
        (disk.trace().to_string(), disk.io_count())
    };
    assert_eq!(life(), life());
}

#[test]
fn a_body_goes_from_log_to_log_byte_by_byte() {
    let (here, there) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (leader, ..) = open(&here, options()).unwrap();
    let (follower, ..) = open(&there, options()).unwrap();
    let one = payload(1, 40_000);
    let records = [
        Record {
            kind: 1,
            parts: &[&one],
        },
        Record {
            kind: 2,
            parts: &[b"state"],
        },
    ];
    for body in [Body::encode(&records), Body::default()] {
        append(&follower, 9);
        let written = leader.append_bodies(tag(4), &[&body]).unwrap();
        leader.wait_durable(written.sequence).unwrap();
        let group = leader.groups(written.start).next().unwrap().unwrap();
        assert_eq!((&group.body, group.start), (&body, written.start));
        let received = Body::verify(group.body.bytes().clone()).unwrap();
        let copied = follower.append_bodies(group.tag, &[&received]).unwrap();
        follower.wait_durable(copied.sequence).unwrap();
        let copy = follower.groups(copied.start).next().unwrap().unwrap();
        assert_eq!((copy.tag, copy.body), (tag(4), body));
        let positions: Vec<_> = copy.records.iter().map(|record| record.0).collect();
        assert_eq!(positions, copied.positions);
    }
}

#[test]
fn many_callers_write_while_a_thread_makes_segments() {
    let disk = SimulatedDisk::new(3);
    let with_maker = || Options {
        worker: Worker::CallerWithPool,
        segment_bytes: 64 << 10,
        ..options()
    };
    let (log, ..) = open(&disk, with_maker()).unwrap();
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..50 {
                    let sequence = append(log, caller * 1_000 + number);
                    log.wait_durable(sequence).unwrap();
                    assert!(log.durable() >= sequence);
                }
            });
        }
    });
    assert!(log.segments().len() > 10, "3,000 bytes each in 64 KiB");
    log.close().unwrap();
    drop(log);
    let (_log, recovered, seen) = open(&disk, with_maker()).unwrap();
    assert_eq!((recovered.clean, seen.len()), (true, 400));
}
