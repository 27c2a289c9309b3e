//! A torn tail is dropped, damage in the middle is refused.

use crate::support;

use std::path::Path;

use environment::simulated::{Restart, SimulatedDisk};
use environment::{Disk, OpenMode};
use support::{
    DIRECTORY, FRAME_HEADER, FRAMES_START, SALT, bytes_of, explicit, open, open_from, overwrite,
    payload, put, segment_path, shared, sign,
};
use value_log::{Durability, Error, Log, Options, Position, Record, Sequence};

/// A log with groups 1 to `count` of `bytes` each, killed without a close.
fn killed(count: u64, bytes: usize) -> (SimulatedDisk, Vec<Position>) {
    let disk = SimulatedDisk::new(7);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let positions = (1..=count)
        .map(|index| put(&log, index, &payload(index, bytes)).unwrap())
        .collect();
    disk.crash();
    drop(log);
    (disk.restart(Restart::nothing_kept()), positions)
}

fn expect_damaged(disk: &SimulatedDisk, file: &Path) -> u64 {
    match open(disk, explicit()) {
        Err(Error::Damaged {
            file: named,
            offset,
            ..
        }) => {
            assert_eq!(named, file);
            offset
        }
        other => panic!("expected damage, got {other:?}"),
    }
}

fn reopen_and_append(disk: &SimulatedDisk, groups: u64) {
    let (log, recovered, seen) = open(disk, explicit()).unwrap();
    assert_eq!(seen.len() as u64, groups, "{recovered:?}");
    put(&log, groups + 1, b"after recovery").unwrap();
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (_log, _, seen) = open(&disk, explicit()).unwrap();
    assert_eq!(seen.len() as u64, groups + 1);
    assert_eq!(seen.last().unwrap().1[0], b"after recovery");
}

#[test]
fn every_acknowledged_group_survives_a_loss_of_power() {
    let (disk, _) = killed(100, 1000);
    let (_log, recovered, seen) = open(&disk, explicit()).unwrap();
    assert!(!recovered.clean);
    let expected: Vec<_> = (1..=100)
        .map(|index| (index, vec![payload(index, 1000)]))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!((recovered.tag.index, recovered.epoch), (100, 2));
}

#[test]
fn a_last_frame_torn_at_any_byte_is_dropped_whole() {
    let (disk, positions) = killed(5, 600);
    let start = positions[4].offset() - FRAME_HEADER;
    // What follows the payload is padding that no checksum covers.
    let length = FRAME_HEADER as usize + 12 + 600;
    for torn_at in 0..length {
        let disk = disk.fork();
        overwrite(
            &disk,
            &segment_path(1),
            start + torn_at as u64,
            &vec![0; length - torn_at],
        );
        let (_log, recovered, seen) = open(&disk, explicit()).unwrap();
        assert_eq!(seen.len(), 4, "torn at {torn_at}");
        assert_eq!(
            recovered.sequence,
            Sequence(5),
            "the opening frame and four groups"
        );
    }
    let torn = disk.fork();
    overwrite(&torn, &segment_path(1), start + 300, &[0; 100]);
    reopen_and_append(&torn, 4);
    reopen_and_append(&disk, 5);
}

#[test]
fn any_flipped_bit_in_an_acknowledged_group_is_refused() {
    let (disk, positions) = killed(5, 40);
    let start = positions[2].offset() - FRAME_HEADER;
    let covered = FRAME_HEADER + 12 + 40;
    for bit in (0..covered * 8).filter(|bit| bit % 3 == 0) {
        let disk = disk.fork();
        disk.flip_bit(&segment_path(1), start + bit / 8, (bit % 8) as u8);
        assert_eq!(expect_damaged(&disk, &segment_path(1)), start, "bit {bit}");
    }
}

#[test]
fn damage_at_the_end_of_a_segment_that_was_left_is_refused() {
    let (disk, positions) = killed(100, 1500);
    let last = positions
        .iter()
        .rposition(|position| position.segment() == 1)
        .unwrap();
    let path = segment_path(1);
    let damaged = disk.fork();
    damaged.flip_bit(&path, positions[last].offset() + 20, 0);
    assert_eq!(
        expect_damaged(&damaged, &path),
        positions[last].offset() - FRAME_HEADER
    );
    let damaged = disk.fork();
    damaged.flip_bit(&segment_path(2), positions[last + 1].offset() + 20, 0);
    assert_eq!(expect_damaged(&damaged, &segment_path(2)), FRAMES_START);
}

#[test]
fn damage_in_the_very_first_frame_is_refused() {
    let (disk, _) = killed(100, 1500);
    disk.flip_bit(&segment_path(1), FRAMES_START + 20, 0);
    assert_eq!(expect_damaged(&disk, &segment_path(1)), FRAMES_START);
}

#[test]
fn a_lost_segment_file_is_refused_behind_the_place_to_replay_from() {
    let (disk, positions) = killed(200, 1500);
    assert!(positions[199].segment() > 4);
    disk.remove(&segment_path(3)).unwrap();
    let Err(error) = open_from(&disk, explicit(), Some(positions[0])) else {
        panic!("opened")
    };
    assert!(error.to_string().contains("00000003.log"), "{error}");
    let Err(error) = open_from(&disk, explicit(), Some(Position::new(3, 4096))) else {
        panic!("opened")
    };
    assert!(error.to_string().contains("00000003.log"), "{error}");
}

#[test]
fn replay_starts_with_the_group_that_holds_the_position() {
    let (disk, positions) = killed(150, 1000);
    for at in [0, 1, 60, 61, 149] {
        let disk = disk.fork();
        let (_log, _, seen) = open_from(&disk, explicit(), Some(positions[at])).unwrap();
        assert_eq!(seen.first().map(|(index, _)| *index), Some(at as u64 + 1));
        assert_eq!(seen.len(), 150 - at);
    }
}

/// Where the frame starts that holds the record, alone.
fn frame_of(record: Position) -> Position {
    Position::new(record.segment(), record.offset() - FRAME_HEADER)
}

#[test]
fn replay_from_a_frame_needs_nothing_that_lies_before_it() {
    let (disk, positions) = killed(150, 1000);
    let sixty = frame_of(positions[60]);
    let before = sixty.offset() - FRAMES_START;
    assert!(before > 4096 && sixty.segment() > 1);
    overwrite(
        &disk,
        &segment_path(sixty.segment()),
        FRAMES_START,
        &vec![7; before as usize],
    );
    let (log, _, seen) = open_from(&disk, explicit(), Some(sixty)).unwrap();
    let indexes: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, (61..=150).collect::<Vec<_>>());
    put(&log, 151, b"it goes on").unwrap();
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (_log, _, seen) = open_from(&disk, explicit(), Some(sixty)).unwrap();
    assert_eq!(seen.len(), 91);
}

#[test]
fn the_first_tag_of_a_segment_is_known_when_replay_begins_in_its_middle() {
    let (disk, positions) = killed(20, 1000);
    let from = frame_of(positions[12]);
    assert_eq!(from.segment(), 1);
    let (log, ..) = open_from(&disk, explicit(), Some(from)).unwrap();
    let segment = log.segments()[0].clone();
    assert_eq!((segment.first_tag.index, segment.last_tag.index), (1, 20));
}

#[test]
fn a_frame_to_replay_from_that_is_damaged_is_refused() {
    let (disk, positions) = killed(20, 1000);
    let from = frame_of(positions[12]);
    let last = frame_of(positions[19]);
    for (from, offset) in [(from, 20), (from, 140), (last, 20), (last, 140)] {
        let disk = disk.fork();
        disk.flip_bit(&segment_path(1), from.offset() + offset, 3);
        assert!(matches!(
            open_from(&disk, explicit(), Some(from)),
            Err(Error::Damaged { .. })
        ));
    }
}

#[test]
fn a_log_that_ends_before_the_place_to_replay_from_is_refused() {
    let (disk, positions) = killed(5, 600);
    overwrite(&disk, &segment_path(1), positions[4].offset(), &[0; 100]);
    let beyond = Position::new(1, positions[4].offset() + 4096);
    assert!(matches!(
        open_from(&disk, explicit(), Some(beyond)),
        Err(Error::Damaged { .. })
    ));
}

#[test]
fn frames_of_a_torn_tail_never_come_back_to_life() {
    let (disk, positions) = killed(5, 600);
    // Tear the fourth of five groups as one unfinished write would: the fifth
    // is there, whole, and promises nothing about the fourth.
    let start = positions[3].offset() - FRAME_HEADER;
    let fifth = positions[4].offset() - FRAME_HEADER;
    let promise = bytes_of(&disk, &segment_path(1), start + 24, 8);
    let mut header = bytes_of(&disk, &segment_path(1), fifth, FRAME_HEADER as usize);
    header[24..32].copy_from_slice(&promise);
    sign(&mut header, SALT);
    overwrite(&disk, &segment_path(1), fifth, &header);
    let torn = bytes_of(&disk, &segment_path(1), start, (fifth - start) as usize);
    overwrite(&disk, &segment_path(1), start, &vec![0; torn.len()]);

    let mut disk = disk;
    for round in 0..6 {
        let (log, recovered, seen) = open(&disk, explicit()).unwrap();
        assert_eq!(seen.len() as u64, 3 + round, "{recovered:?}");
        assert!(
            seen.iter().all(|(index, _)| *index <= 3 || *index >= 100),
            "{recovered:?}"
        );
        // Frames of the same size as those before, so that the stale ones
        // would be in place.
        put(&log, 100 + round, &payload(round, 600)).unwrap();
        disk.crash();
        drop(log);
        disk = disk.restart(Restart::nothing_kept());
    }
}

#[test]
fn stale_frames_of_a_recycled_file_are_ignored() {
    let disk = SimulatedDisk::new(3);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    for index in 1..=300 {
        put(&log, index, &payload(index, 600)).unwrap();
        let sealed: Vec<u32> = log
            .segments()
            .iter()
            .filter(|segment| segment.sealed)
            .map(|segment| segment.id)
            .collect();
        if !sealed.is_empty() {
            log.release(&sealed).unwrap();
        }
    }
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (_log, recovered, seen) = open(&disk, explicit()).unwrap();
    assert_eq!(seen.last().unwrap().0, 300);
    let indices: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
    assert!(
        indices.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{indices:?}"
    );
    assert!(!recovered.torn, "{recovered:?}");
}

#[test]
fn page_cache_durability_survives_the_process_and_stays_a_prefix_without_power() {
    let options = Options {
        durability: Durability::Os,
        ..shared()
    };
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed);
        let (log, _, _) = open(&disk, options.clone()).unwrap();
        for number in 0..100 {
            let payload = payload(number, 900);
            let appended = log
                .append(&[Record {
                    kind: 0,
                    parts: &[&payload],
                }])
                .unwrap();
            log.wait_durable(appended.sequence).unwrap();
        }
        disk.crash();
        drop(log);
        let flat =
            |seen: Vec<support::Seen>| seen.into_iter().flat_map(|(_, it)| it).collect::<Vec<_>>();
        let killed = disk.restart(Restart::ProcessCrash);
        let (_log, _, seen) = open(&killed, options.clone()).unwrap();
        assert_eq!(flat(seen).len(), 100, "kill -9 loses nothing");
        let powerless = disk.restart(Restart::power_loss());
        let (_log, _, seen) = open(&powerless, options.clone()).unwrap();
        for (number, kept) in flat(seen).iter().enumerate() {
            assert_eq!(*kept, payload(number as u64, 900), "seed {seed}");
        }
    }
}

#[test]
fn flushed_groups_in_the_page_cache_survive_a_loss_of_power() {
    let options = Options {
        durability: Durability::Os,
        ..explicit()
    };
    let disk = SimulatedDisk::new(3);
    let (log, _, _) = open(&disk, options.clone()).unwrap();
    for index in 1..=100 {
        put(&log, index, &payload(index, 1500)).unwrap();
    }
    log.flush().unwrap();
    put(&log, 101, b"not flushed").unwrap();
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (_log, _, seen) = open(&disk, options).unwrap();
    assert_eq!(seen.len(), 100);
}

#[test]
fn a_flush_of_a_segment_that_was_just_entered_promises_no_group_in_it() {
    let options = Options {
        durability: Durability::Os,
        ..explicit()
    };
    let mut lost = 0;
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed);
        let (log, _, _) = open(&disk, options.clone()).unwrap();
        put(&log, 1, b"flushed").unwrap();
        log.rotate().unwrap();
        log.flush().unwrap();
        // Blocks of the second may be kept without those of the first.
        put(&log, 2, &payload(2, 6000)).unwrap();
        put(&log, 3, &payload(3, 6000)).unwrap();
        disk.crash();
        drop(log);
        let disk = disk.restart(Restart::power_loss());
        let (_log, recovered, seen) = open(&disk, options.clone()).unwrap();
        assert!(!seen.is_empty(), "seed {seed}");
        lost += usize::from(recovered.torn && seen.len() == 1);
    }
    assert!(lost > 0, "the first group was never lost alone");
}

#[test]
fn foreign_files_wrong_versions_and_cut_files_are_named() {
    let (disk, _) = killed(3, 100);
    let header = bytes_of(&disk, &segment_path(1), 0, 48);
    let with_crc = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut header = header.clone();
        change(&mut header);
        let crc = crc_fast::crc32_iscsi(&header[..44]);
        header[44..48].copy_from_slice(&crc.to_le_bytes());
        header
    };
    let try_header = |bytes: &[u8]| {
        let disk = disk.fork();
        overwrite(&disk, &segment_path(1), 0, bytes);
        open(&disk, explicit()).expect_err("refused")
    };
    assert!(matches!(try_header(&[b'x'; 48]), Error::Foreign { .. }));
    let version = try_header(&with_crc(&|header| header[8] = 9));
    assert!(
        matches!(
            version,
            Error::Version {
                found: 9,
                supported: 2,
                ..
            }
        ),
        "{version}"
    );
    assert!(matches!(
        try_header(&with_crc(&|header| header[12] = 9)),
        Error::Foreign { .. }
    ));
    let flipped = try_header(&{
        let mut header = header.clone();
        header[30] ^= 1;
        header
    });
    assert!(
        matches!(flipped, Error::Damaged { offset: 0, .. }),
        "{flipped}"
    );
    let cut = disk.fork();
    cut.open(&segment_path(1), OpenMode::ReadWrite)
        .unwrap()
        .set_size(60_000)
        .unwrap();
    assert!(matches!(
        open(&cut, explicit()),
        Err(Error::Damaged { offset: 60_000, .. })
    ));
}

#[test]
fn files_of_others_are_left_alone_and_half_made_ones_removed() {
    let (disk, _) = killed(3, 100);
    for name in ["notes.txt", "77.making", "0000000G.log", "checkpoint"] {
        disk.open(&Path::new(DIRECTORY).join(name), OpenMode::CreateNew)
            .unwrap();
    }
    let (log, _, seen) = open(&disk, explicit()).unwrap();
    assert_eq!(seen.len(), 3);
    log.close().unwrap();
    let mut names = disk.list(Path::new(DIRECTORY)).unwrap();
    names.retain(|name| !name.ends_with(".log") && !name.ends_with(".spare"));
    names.sort();
    assert_eq!(names, ["checkpoint", "notes.txt"]);
    assert!(
        disk.list(Path::new(DIRECTORY))
            .unwrap()
            .contains(&"00000001.log".to_owned())
    );
}

#[test]
fn segments_keep_their_size_whatever_the_option_says() {
    let (disk, _) = killed(3, 100);
    let (log, recovered, seen) = open(
        &disk,
        Options {
            segment_bytes: 256 << 10,
            ..explicit()
        },
    )
    .unwrap();
    assert_eq!((recovered.segment_bytes, seen.len()), (64 << 10, 3));
    put(&log, 4, &payload(4, 50_000)).unwrap();
    put(&log, 5, &payload(5, 50_000)).unwrap();
    assert!(log.segments().len() >= 2);
}

#[test]
fn a_visitor_that_refuses_stops_the_opening() {
    let (disk, _) = killed(3, 100);
    let disk = std::sync::Arc::new(disk);
    let refused = Log::open(disk, Path::new(DIRECTORY), explicit(), None, &mut |_| {
        Err(Error::visit(std::io::Error::other("not mine")))
    });
    assert!(refused.err().unwrap().to_string().contains("not mine"));
}
