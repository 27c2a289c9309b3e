//! Replaying from the start of a segment that nothing was written to yet: what
//! a checkpoint right after a rotation asks for.

use crate::support;

use environment::simulated::{Restart, SimulatedDisk};
use support::{explicit, open, open_from, overwrite, payload, put, segment_path};
use value_log::{Log, Position, Recovered, SegmentKind};

/// Where the newest log segment starts.
fn newest(log: &Log) -> Position {
    let segments = log.segments();
    let logs = segments.iter().filter(|it| it.kind == SegmentKind::Log);
    Position::new(logs.map(|it| it.id).max().unwrap(), 0)
}

/// Ten groups, a rotation, a crash: the disk and where the rotation led.
fn rotated() -> (SimulatedDisk, Position) {
    let disk = SimulatedDisk::new(11);
    let (log, ..) = open(&disk, explicit()).unwrap();
    for index in 1..=10 {
        put(&log, index, &payload(index, 500)).unwrap();
    }
    log.rotate().unwrap();
    let from = newest(&log);
    disk.crash();
    drop(log);
    (disk.restart(Restart::nothing_kept()), from)
}

#[test]
fn a_life_that_began_in_an_empty_segment_is_part_of_the_whole_log() {
    let (disk, from) = rotated();
    let (log, recovered, seen) = open_from(&disk, explicit(), Some(from)).unwrap();
    assert_eq!((seen.len(), recovered.epoch), (0, 2));
    put(&log, 11, &payload(11, 500)).unwrap();
    log.close().unwrap();
    let (_log, recovered, seen) = open(&disk, explicit()).unwrap();
    let indexes: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, (1..=11).collect::<Vec<_>>(), "{recovered:?}");
}

#[test]
fn a_life_that_began_behind_a_hole_is_part_of_the_whole_log() {
    let disk = SimulatedDisk::new(11);
    let (log, ..) = open(&disk, explicit()).unwrap();
    for index in 1..=10 {
        put(&log, index, b"x").unwrap();
        if index % 5 == 0 {
            log.rotate().unwrap();
        }
    }
    log.release(&[2]).unwrap();
    let from = newest(&log);
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (log, ..) = open_from(&disk, explicit(), Some(from)).unwrap();
    put(&log, 11, b"x").unwrap();
    log.close().unwrap();
    let (_log, recovered, seen) = open(&disk, explicit()).unwrap();
    let indexes: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, [1, 2, 3, 4, 5, 11], "{recovered:?}");
}

#[test]
fn epochs_grow_when_the_segment_that_knows_them_is_not_replayed() {
    let (mut disk, mut from) = rotated();
    let mut epochs = Vec::new();
    for index in 20..24 {
        let (log, Recovered { epoch, .. }, _) = open_from(&disk, explicit(), Some(from)).unwrap();
        epochs.push(epoch);
        put(&log, index, b"x").unwrap();
        log.rotate().unwrap();
        from = newest(&log);
        disk.crash();
        drop(log);
        disk = disk.restart(Restart::nothing_kept());
    }
    assert_eq!(epochs, [2, 3, 4, 5]);
}

/// A log that loses the end of one segment goes on, and enters the segment that the
/// lost end had entered: the frames that still stand there are of another history.
#[test]
fn frames_behind_a_lost_tail_never_come_back() {
    let disk = SimulatedDisk::new(12);
    let options = value_log::Options {
        durability: value_log::Durability::Os,
        ..explicit()
    };
    let (log, ..) = open(&disk, options.clone()).unwrap();
    // The fourth does not fit: it is the next segment's first, and nothing of
    // this segment was flushed when it was written.
    for index in 1..=4 {
        put(&log, index, &payload(index, 18_000)).unwrap();
    }
    assert_eq!(newest(&log).segment(), 2);
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::everything_kept());
    overwrite(&disk, &segment_path(1), 8192, &[0; 50 << 10]);
    let (log, _, seen) = open(&disk, options.clone()).unwrap();
    assert_eq!(seen, []);
    put(&log, 500, b"the new history").unwrap();
    log.rotate().unwrap();
    let from = newest(&log);
    log.release(&[1]).unwrap();
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::everything_kept());
    let (_log, _, seen) = open_from(&disk, options, Some(from)).unwrap();
    let indexes: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, [0; 0], "replayed from {from}");
}
