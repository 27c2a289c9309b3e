//! Bytes that look like the log's own: within values, behind a torn tail, in
//! files of another log. Only the salt tells them apart.

use crate::support;

use std::path::Path;

use environment::simulated::{Restart, SimulatedDisk};
use environment::{Disk, OpenMode};
use support::{
    DIRECTORY, FRAME_HEADER, FRAMES_START, SALT, bytes_of, explicit, open, overwrite, payload, put,
    segment_path, sign,
};
use value_log::{Error, Options, Position, Record};

/// Salt that an author of values may guess; it is not the log's.
const GUESSED: u64 = !SALT;

/// A frame without records, right in every respect that `salt` leaves.
fn frame(sequence: u64, previous_crc: u32, synced_up_to: Position, salt: u64) -> Vec<u8> {
    let mut header = vec![0; FRAME_HEADER as usize];
    header[..4].copy_from_slice(b"IKFR");
    header[4] = 2;
    header[6] = 2;
    header[8..12].copy_from_slice(&1_u32.to_le_bytes());
    header[12..16].copy_from_slice(&1_u32.to_le_bytes());
    header[16..24].copy_from_slice(&sequence.to_le_bytes());
    header[24..32].copy_from_slice(&synced_up_to.to_bits().to_le_bytes());
    header[76..80].copy_from_slice(&previous_crc.to_le_bytes());
    sign(&mut header, salt);
    header
}

/// Three groups, and a fourth of `value`, killed.
fn killed_with(value: &[u8]) -> (SimulatedDisk, Position) {
    let disk = SimulatedDisk::new(7);
    let (log, ..) = open(&disk, explicit()).unwrap();
    for index in 1..=3 {
        put(&log, index, &payload(index, 600)).unwrap();
    }
    let position = put(&log, 4, value).unwrap();
    disk.crash();
    drop(log);
    (disk.restart(Restart::nothing_kept()), position)
}

/// Takes the first block of the fourth group away, as an unfinished write may.
fn tear(disk: &SimulatedDisk, group: Position) {
    let start = group.offset() - FRAME_HEADER;
    let block_end = (start + 1).next_multiple_of(4096);
    let zeros = vec![0; (block_end - start) as usize];
    overwrite(disk, &segment_path(1), start, &zeros);
}

/// A value full of frames that promise everything.
fn promising(salt: u64) -> Vec<u8> {
    let far = Position::new(1, 60_000);
    // The payload starts 12 bytes behind an aligned record.
    let mut value = vec![0; 4];
    for sequence in 6..100 {
        value.extend(frame(sequence, 0, far, salt));
    }
    value
}

#[test]
fn a_forged_frame_behind_a_torn_tail_does_not_stop_the_log_from_opening() {
    let (disk, group) = killed_with(&promising(GUESSED));
    tear(&disk, group);
    let (log, recovered, seen) = open(&disk, explicit()).unwrap();
    assert_eq!(seen.len(), 3, "{recovered:?}");
    put(&log, 5, b"it goes on").unwrap();
}

#[test]
fn the_same_frame_made_with_the_salt_stops_the_opening() {
    let (disk, group) = killed_with(&promising(SALT));
    tear(&disk, group);
    let refused = open(&disk, explicit()).map(|(_, recovered, _)| recovered);
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
}

#[test]
fn a_forged_frame_in_the_place_of_the_next_one_is_not_taken_for_it() {
    for (salt, taken) in [(GUESSED, 0), (SALT, 1)] {
        // Small enough for the frame to begin in the block of the third one.
        let (disk, group) = killed_with(&[0; 5000]);
        assert!(group.offset() < FRAMES_START + 4096, "{group}");
        tear(&disk, group);
        // The value's bytes at the next block boundary, where a frame can be.
        let third = bytes_of(&disk, &segment_path(1), FRAMES_START, 4096);
        let magic = third
            .chunks_exact(8)
            .rposition(|it| it.starts_with(b"IKFR"));
        let header = &third[8 * magic.unwrap()..][..FRAME_HEADER as usize];
        let previous_crc = u32::from_le_bytes(header[84..].try_into().unwrap());
        let forged = frame(5, previous_crc, Position::NONE, salt);
        let boundary = group.offset().next_multiple_of(4096);
        overwrite(&disk, &segment_path(1), boundary, &forged);
        let (_log, recovered, seen) = open(&disk, explicit()).unwrap();
        assert_eq!(seen.len(), 3);
        assert_eq!(recovered.sequence.0, 4 + taken, "{recovered:?}");
    }
}

#[test]
fn every_log_draws_a_salt_of_its_own_and_keeps_it_for_all_its_segments() {
    let drawn = Options {
        salt: None,
        ..explicit()
    };
    let disks = [SimulatedDisk::new(1), SimulatedDisk::new(1)];
    let salts = disks.map(|disk| {
        for _ in 0..2 {
            let (log, ..) = open(&disk, drawn.clone()).unwrap();
            put(&log, 1, b"x").unwrap();
            log.rotate().unwrap();
            put(&log, 2, b"x").unwrap();
            let mut relocation = log.relocate(0).unwrap();
            let parts: &[&[u8]] = &[b"survivor"];
            relocation.append(Record { kind: 1, parts }).unwrap();
            relocation.finish().unwrap();
            log.close().unwrap();
        }
        let names = disk.list(Path::new(DIRECTORY)).unwrap();
        let segments = names.iter().filter(|name| !name.ends_with(".spare"));
        let mut salts: Vec<Vec<u8>> = segments
            .map(|name| bytes_of(&disk, &Path::new(DIRECTORY).join(name), 36, 8))
            .collect();
        // A further one may have been made ahead by the end.
        assert!(salts.len() >= 5, "{names:?}");
        salts.dedup();
        assert_eq!(salts.len(), 1, "{names:?}");
        salts.remove(0)
    });
    assert_ne!(salts[0], salts[1]);
    assert!(!salts.contains(&vec![0; 8]));
}

/// Copies a file from disk to disk.
fn copy(from: &SimulatedDisk, to: &SimulatedDisk, path: &Path) {
    let bytes = bytes_of(from, path, 0, 64 << 10);
    let file = to.open(path, OpenMode::CreateNew).unwrap();
    file.write_durable_at(&[&bytes], 0).unwrap();
    to.sync_directory(Path::new(DIRECTORY)).unwrap();
}

fn of_segments(salt: u64, segments: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(salt);
    let options = Options {
        salt: Some(salt),
        ..explicit()
    };
    let (log, ..) = open(&disk, options).unwrap();
    for index in 1..=segments {
        put(&log, index, b"x").unwrap();
        log.rotate().unwrap();
    }
    log.close().unwrap();
    disk
}

#[test]
fn a_segment_of_another_log_is_named_and_refused() {
    for id in [1, 3, 6] {
        let (ours, theirs) = (of_segments(1, 4), of_segments(2, 8));
        let path = segment_path(id);
        // Where the number is in use it takes the place of our own.
        let _ = ours.remove(&path);
        copy(&theirs, &ours, &path);
        match open(&ours, explicit()).map(|(_, recovered, _)| recovered) {
            Err(Error::Foreign { file, what }) => {
                assert_eq!(file, path);
                assert!(what.contains("another log"), "{what}");
            }
            other => panic!("segment {id}: {other:?}"),
        }
    }
}

#[test]
fn a_spare_of_another_log_is_used_like_any_other() {
    let (ours, theirs) = (of_segments(1, 2), of_segments(2, 8));
    let spare = Path::new(DIRECTORY).join("77.spare");
    let bytes = bytes_of(&theirs, &segment_path(3), 0, 64 << 10);
    let file = ours.open(&spare, OpenMode::CreateNew).unwrap();
    file.write_durable_at(&[&bytes], 0).unwrap();
    for _ in 0..3 {
        let (log, _, before) = open(&ours, explicit()).unwrap();
        for index in 0..8 {
            put(&log, index, b"x").unwrap();
            log.rotate().unwrap();
        }
        log.close().unwrap();
        let (_, recovered, after) = open(&ours, explicit()).unwrap();
        assert!(!recovered.torn);
        assert_eq!(after.len(), before.len() + 8);
    }
}

#[test]
fn a_log_of_the_format_before_is_refused_by_its_version() {
    let (disk, _) = killed_with(b"x");
    let mut header = bytes_of(&disk, &segment_path(1), 0, 48);
    header[8] = 1;
    header[36..44].fill(0);
    let crc = crc_fast::crc32_iscsi(&header[..44]);
    header[44..].copy_from_slice(&crc.to_le_bytes());
    overwrite(&disk, &segment_path(1), 0, &header);
    let refused = open(&disk, explicit()).map(|(_, recovered, _)| recovered);
    let Err(Error::Version { found: 1, .. }) = refused else {
        panic!("{refused:?}")
    };
}
