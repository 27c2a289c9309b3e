//! The device's work: one durable group is one flush and no block more than its frame fills.

use crate::support;

use environment::simulated::SimulatedDisk;
use support::{FRAME_HEADER, explicit, open, payload, shared};
use value_log::{Log, Options, Record};

const SIZES: [usize; 16] = [
    1, 100, 549, 900, 1, 2000, 3900, 4000, 4084, 4096, 5000, 12_000, 8092, 300, 300, 300,
];

fn costs_one_flush_and_its_blocks(options: Options) {
    let disk = SimulatedDisk::new(1);
    let options = Options {
        // All within the first step of its reach.
        segment_bytes: 1 << 20,
        ..options
    };
    let (log, _, _) = open(&disk, options.clone()).unwrap();
    for bytes in SIZES {
        // The thread that makes segments does I/O of its own.
        while log.status().spare_segments < options.spare_segments {
            std::thread::yield_now();
        }
        let before = disk.counters();
        let appended = log
            .append(&[Record {
                kind: 0,
                parts: &[&payload(1, bytes)],
            }])
            .unwrap();
        log.wait_durable(appended.sequence).unwrap();
        let after = disk.counters();
        let frame = FRAME_HEADER + Log::record_bytes(bytes) as u64;
        assert_eq!(
            after.durable_flushes - before.durable_flushes,
            1,
            "{bytes} bytes"
        );
        assert_eq!(
            after.blocks_flushed - before.blocks_flushed,
            frame.div_ceil(4096),
            "{bytes} bytes"
        );
        assert_eq!(
            after.bytes_written - before.bytes_written,
            frame,
            "{bytes} bytes"
        );
        assert_eq!(
            after.journal_commits, before.journal_commits,
            "{bytes} bytes"
        );
    }
    assert_eq!(log.segments().len(), 1, "no rotation came in between");
}

#[test]
fn an_explicit_group_costs_one_flush_and_its_blocks() {
    costs_one_flush_and_its_blocks(explicit());
}

#[test]
fn a_shared_group_costs_one_flush_and_its_blocks() {
    costs_one_flush_and_its_blocks(shared());
}

#[test]
fn zeros_and_sorted_segments_are_flushed_in_pieces_where_each_group_is_flushed() {
    let disk = SimulatedDisk::new(1);
    let options = Options {
        segment_bytes: 4 << 20,
        ..explicit()
    };
    let (log, _, _) = open(&disk, options).unwrap();
    let payload = payload(1, 100 << 10);
    let record = Record {
        kind: 0,
        parts: &[&payload],
    };
    let mut relocation = log.relocate(0).unwrap();
    for _ in 0..60 {
        let appended = log.append(&[record]).unwrap();
        log.wait_durable(appended.sequence).unwrap();
        relocation.append(record).unwrap();
    }
    assert_eq!(relocation.finish().unwrap().len(), 2);
    assert!(log.segments().len() > 3, "segments were made");
    // A piece is a sixty-fourth of a segment, and frames of a sorted one have at most 256 KiB.
    let most_bytes = disk.counters().blocks_flushed_max * 4096;
    assert!(most_bytes <= (64 << 10) + (256 << 10), "{most_bytes} bytes");
}

#[test]
fn a_known_length_is_read_with_one_read() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let appended = log
        .append(&[Record {
            kind: 0,
            parts: &[&payload(1, 5000)],
        }])
        .unwrap();
    log.wait_durable(appended.sequence).unwrap();
    let reads = |hint| {
        let before = disk.counters().reads;
        log.read(appended.positions[0], hint).unwrap();
        disk.counters().reads - before
    };
    assert_eq!(reads(Log::record_bytes(5000)), 1);
    assert_eq!(reads(0), 2);
}
