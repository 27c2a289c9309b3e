//! Rotation, release, recycling, sorted segments.

use crate::support;

use std::path::Path;

use environment::Disk;
use environment::simulated::{Restart, SimulatedDisk};
use support::{DIRECTORY, explicit, open, open_from, payload, put};
use value_log::{Error, Position, Record, SegmentKind, Tag};

#[test]
fn rotation_seals_a_segment_and_tells_what_it_holds() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    put(&log, 5, b"five").unwrap();
    put(&log, 6, b"six").unwrap();
    log.rotate().unwrap();
    put(&log, 7, b"seven").unwrap();
    let check = |log: &value_log::Log| {
        let segments = log.segments();
        let tag = |index| Tag {
            term: 1,
            index,
            first: index,
            last: index,
        };
        assert_eq!(
            (segments[0].first_tag, segments[0].last_tag),
            (tag(5), tag(6))
        );
        assert!(segments[0].sealed && !segments[1].sealed);
        assert_eq!(segments[1].first_tag, tag(7));
        assert!(
            segments[0].used_bytes > 4096 && segments[0].used_bytes < 5000,
            "{segments:?}"
        );
    };
    check(&log);
    log.close().unwrap();
    let (log, _, _) = open(&disk, explicit()).unwrap();
    check(&log);
    drop(log);
    let (log, _, seen) = open_from(&disk, explicit(), Some(Position::new(2, 4096))).unwrap();
    assert_eq!(seen.len(), 1);
    check(&log);
}

#[test]
fn released_segments_are_recycled_and_never_zeroed_again() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let mut created = 0;
    for index in 1..=400 {
        put(&log, index, &payload(index, 1500)).unwrap();
        let sealed: Vec<u32> = log
            .segments()
            .iter()
            .filter(|segment| segment.sealed)
            .map(|segment| segment.id)
            .collect();
        if !sealed.is_empty() {
            log.release(&sealed).unwrap();
        }
        if index == 200 {
            created = disk.counters().journal_commits;
        }
    }
    assert!(log.segments().last().unwrap().id > 9);
    let made_since = disk.counters().journal_commits - created;
    assert!(
        made_since <= 1,
        "{made_since} files were made in the steady state"
    );
    drop(log);
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    assert!(names.len() <= 5, "{names:?}");
}

#[test]
fn only_sealed_segments_can_be_released() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let position = put(&log, 1, b"here").unwrap();
    let error = log.release(&[1]).unwrap_err();
    assert!(error.to_string().contains("rotate"), "{error}");
    log.rotate().unwrap();
    assert!(matches!(log.release(&[1, 42]), Err(Error::Misuse { .. })));
    assert!(
        log.read(position, 0).is_ok(),
        "none is released when one may not be"
    );
    log.release(&[1, 1]).unwrap();
    assert!(matches!(log.read(position, 0), Err(Error::NotFound { .. })));
    put(&log, 2, b"on").unwrap();
    drop(log);
    let (_log, _, seen) = open(&disk, explicit()).unwrap();
    assert_eq!(seen.len(), 1);
}

#[test]
fn a_hole_left_by_a_release_is_walked_over() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    for index in 1..=4 {
        put(&log, index, b"x").unwrap();
        log.rotate().unwrap();
    }
    log.release(&[2, 3]).unwrap();
    let indices = |log: &value_log::Log| -> Vec<u64> {
        log.groups(Position::NONE)
            .map(|group| group.unwrap().tag.index)
            .collect()
    };
    assert_eq!(indices(&log), [1, 4]);
    drop(log);
    let (log, _, seen) = open(&disk, explicit()).unwrap();
    assert_eq!(
        seen.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
        [1, 4]
    );
    assert_eq!(indices(&log), [1, 4]);
    put(&log, 5, b"x").unwrap();
}

#[test]
fn sorted_segments_are_there_after_finish_and_after_a_loss_of_power() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    put(&log, 1, b"log").unwrap();
    let mut relocation = log.relocate(0).unwrap();
    let positions: Vec<Position> = (0..150)
        .map(|number| {
            let payload = payload(number, 2000 + number as usize);
            relocation
                .append(Record {
                    kind: 9,
                    parts: &[&payload],
                })
                .unwrap()
        })
        .collect();
    assert!(matches!(
        log.read(positions[149], 0),
        Err(Error::NotFound { .. })
    ));
    let ids = relocation.finish().unwrap();
    assert!(ids.len() > 4, "{ids:?}");
    for index in 2..=60 {
        put(&log, index, &payload(index, 3000)).unwrap();
    }
    let check = |log: &value_log::Log| {
        for (number, position) in positions.iter().enumerate() {
            let record = log.read(*position, 0).unwrap();
            assert_eq!(
                (record.kind, &record.payload[..]),
                (9, &payload(number as u64, 2000 + number)[..])
            );
        }
        let sorted: Vec<u32> = log
            .segments()
            .iter()
            .filter(|segment| segment.kind == SegmentKind::Sorted && segment.sealed)
            .map(|segment| segment.id)
            .collect();
        assert_eq!(sorted, ids);
        assert_eq!(
            log.groups(Position::NONE).count(),
            60,
            "the log goes around them"
        );
    };
    check(&log);
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (log, _, seen) = open(&disk, explicit()).unwrap();
    assert_eq!(seen.len(), 60);
    check(&log);
    log.release(&ids).unwrap();
    assert!(matches!(
        log.read(positions[0], 0),
        Err(Error::NotFound { .. })
    ));
}

#[test]
fn an_abandoned_relocation_leaves_nothing() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let mut relocation = log.relocate(0).unwrap();
    for number in 0..60 {
        relocation
            .append(Record {
                kind: 9,
                parts: &[&payload(number, 3000)],
            })
            .unwrap();
    }
    drop(relocation);
    assert!(
        log.segments()
            .iter()
            .all(|segment| segment.kind == SegmentKind::Log)
    );
    put(&log, 1, b"on").unwrap();
    drop(log);
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    assert!(
        names.iter().all(|name| !name.ends_with(".sorted")),
        "{names:?}"
    );
}
