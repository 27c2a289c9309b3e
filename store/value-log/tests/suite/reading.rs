//! What an opening reads: no more than it must, however large the segments are, and
//! all frames that could show damage.

use crate::support;

use environment::simulated::{Fault, Restart, SimulatedDisk};
use support::{bytes_of, explicit, open, overwrite, payload, put, segment_path};
use value_log::{Durability, Error, Log, Options, Position};

fn of_size(segment_bytes: u64) -> Options {
    Options {
        segment_bytes,
        ..explicit()
    }
}

/// Until no segment is being made.
fn wait_for_spare_segments(log: &Log) {
    while log.status().spare_segments == 0 {
        std::thread::yield_now();
    }
}

/// What the reach note of a segment says.
fn reach(disk: &SimulatedDisk, id: u32) -> u64 {
    let note = bytes_of(disk, &segment_path(id), 1024, 32);
    assert_eq!(note[..8], *b"INKSTFAR");
    u64::from_le_bytes(note[16..24].try_into().unwrap())
}

#[test]
fn a_small_log_in_large_segments_is_not_read_whole() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, of_size(64 << 20)).unwrap();
    for index in 1..=3 {
        put(&log, index, &payload(index, 1000)).unwrap();
    }
    wait_for_spare_segments(&log);
    disk.crash();
    drop(log);
    for restart in [Restart::ProcessCrash, Restart::power_loss()] {
        let disk = disk.restart(restart);
        let (_log, _, seen) = open(&disk, of_size(64 << 20)).unwrap();
        assert_eq!(seen.len(), 3);
        let read = disk.counters().bytes_read;
        assert!(read < 24 << 20, "{read} bytes of two segments of 64 MiB");
    }
}

const GROUPS: u64 = 140;

/// 140 groups of 6,000 bytes in a segment of 1 MiB, killed.
fn killed() -> (SimulatedDisk, Vec<Position>) {
    let disk = SimulatedDisk::new(2);
    let (log, ..) = open(&disk, of_size(1 << 20)).unwrap();
    let positions = (1..=GROUPS)
        .map(|index| put(&log, index, &payload(index, 6000)).unwrap())
        .collect();
    disk.crash();
    drop(log);
    (disk.restart(Restart::nothing_kept()), positions)
}

#[test]
fn the_reach_is_stable_before_what_it_covers() {
    let disk = SimulatedDisk::new(2);
    let (log, ..) = open(&disk, of_size(1 << 20)).unwrap();
    let mut steps = Vec::new();
    for index in 1..=GROUPS {
        let position = put(&log, index, &payload(index, 6000)).unwrap();
        // What the device has now.
        let fork = disk.fork();
        fork.crash();
        let reach = reach(&fork.restart(Restart::nothing_kept()), 1);
        assert!(position.offset() + 6000 <= reach, "{position} of {reach}");
        steps.push(reach);
    }
    steps.dedup();
    let eighths: Vec<u64> = (1..=7).map(|step| step << 17).collect();
    assert_eq!(steps, eighths);
}

#[test]
fn damage_is_found_by_a_promise_at_the_far_end() {
    let (disk, positions) = killed();
    // All between the second group and the last is gone.
    let from = positions[1].offset() - 88;
    let last = positions[GROUPS as usize - 1].offset() - 88;
    overwrite(
        &disk,
        &segment_path(1),
        from,
        &vec![0; (last - from) as usize],
    );
    // With its note, and with one that does not verify.
    for flipped in [false, true] {
        let disk = disk.fork();
        if flipped {
            disk.flip_bit(&segment_path(1), 1024 + 17, 3);
        }
        let refused = open(&disk, of_size(1 << 20)).map(|(_, recovered, _)| recovered);
        let Err(Error::Damaged { offset, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            offset,
            positions[0].offset() + Log::record_bytes(6000) as u64
        );
    }
}

#[test]
fn a_failed_flush_of_the_reach_stops_the_log_and_costs_nothing() {
    let disk = SimulatedDisk::new(2);
    let (log, ..) = open(&disk, of_size(1 << 20)).unwrap();
    let mut last = 0;
    while last < 20 {
        last += 1;
        put(&log, last, &payload(last, 6000)).unwrap();
    }
    wait_for_spare_segments(&log);
    assert_eq!(reach(&disk, 1), 1 << 17);
    // The next group goes beyond.
    disk.inject(disk.io_count(), Fault::FailedFlush);
    assert!(put(&log, 21, &payload(21, 9000)).unwrap_err().is_failed());
    drop(log);
    // A new process on the same machine does not trust the page cache.
    let (log, _, seen) = open(&disk, of_size(1 << 20)).unwrap();
    assert_eq!(seen.len(), 20);
    let position = put(&log, 22, &payload(22, 9000)).unwrap();
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    assert!(reach(&disk, 1) >= position.offset() + 9000);
    let (_log, _, seen) = open(&disk, of_size(1 << 20)).unwrap();
    assert_eq!(seen.len(), 21);
}

#[test]
fn page_cache_durability_notes_the_whole_segment_at_once() {
    let options = Options {
        durability: Durability::Os,
        ..of_size(1 << 20)
    };
    for can_reserve in [true, false] {
        let disk = SimulatedDisk::new(2);
        if !can_reserve {
            disk.refuse_reservations();
        }
        let (log, ..) = open(&disk, options.clone()).unwrap();
        assert_eq!(reach(&disk, 1) == 1 << 20, can_reserve);
        let before = log.status().flushes;
        for index in 1..=GROUPS {
            put(&log, index, &payload(index, 6000)).unwrap();
        }
        assert_eq!(log.status().flushes - before, u64::from(!can_reserve));
        assert_eq!(reach(&disk, 1), 1 << 20);
    }
}
