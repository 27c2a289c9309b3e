//! The bytes of `docs/formats/value-log.md`, spelled out. If this fails, the
//! format has changed: raise the version and write down how old files are
//! read.

use crate::support;

use environment::simulated::SimulatedDisk;
use support::{bytes_of, explicit, open, segment_path};
use value_log::{Durability, Options, Record, Tag};

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| {
        line.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A log with one group of two records, left for the next segment.
fn log() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let tag = Tag {
        term: 3,
        index: 0x0102,
        first: 7,
        last: 8,
    };
    let records = [
        Record {
            kind: 5,
            parts: &[b"ink"],
        },
        Record {
            kind: 6,
            parts: &[b"on ", b"stone"],
        },
    ];
    let appended = log.append_group(tag, &records).unwrap();
    log.wait_durable(appended.sequence).unwrap();
    log.rotate().unwrap();
    log.close().unwrap();
    disk
}

#[test]
fn the_segment_header_is_as_documented() {
    let header = bytes_of(&log(), &segment_path(1), 0, 48);
    assert_eq!(hex(&header), GOLDEN_SEGMENT_HEADER);
}

#[test]
fn a_header_tells_that_blocks_are_only_reserved() {
    let disk = SimulatedDisk::new(1);
    let options = Options {
        durability: Durability::Os,
        ..explicit()
    };
    let (_log, _, _) = open(&disk, options).unwrap();
    let header = bytes_of(&disk, &segment_path(1), 0, 48);
    assert_eq!(hex(&header), GOLDEN_RESERVED_HEADER);
}

#[test]
fn the_seal_note_is_as_documented() {
    let note = bytes_of(&log(), &segment_path(1), 512, 104);
    assert_eq!(hex(&note), GOLDEN_SEAL_NOTE);
}

#[test]
fn the_reach_note_is_as_documented() {
    let note = bytes_of(&log(), &segment_path(1), 1024, 32);
    assert_eq!(hex(&note), GOLDEN_REACH_NOTE);
}

#[test]
fn frames_and_records_are_as_documented() {
    let frames = bytes_of(&log(), &segment_path(1), 4096, 88 + 88 + 16 + 24);
    assert_eq!(hex(&frames), GOLDEN_FRAMES);
}

#[test]
fn a_closing_frame_ends_the_next_segment_and_names_the_first_one() {
    let disk = log();
    assert_eq!(bytes_of(&disk, &segment_path(2), 16, 4), [1, 0, 0, 0]);
    let closing = bytes_of(&disk, &segment_path(2), 4096, 88);
    assert_eq!(closing[..8], *b"IKFR\x02\x00\x03\x00");
    let before = bytes_of(&disk, &segment_path(1), 4096 + 88 + 84, 4);
    assert_eq!(
        closing[76..80],
        before[..],
        "the chain goes across segments"
    );
}

// These were computed from the page by another program.

const GOLDEN_SEGMENT_HEADER: &str = "\
494e4b53545345470200000001000000\n\
00000000010000000000010000000000\n\
0100000011121314151617186745831b";

const GOLDEN_RESERVED_HEADER: &str = "\
494e4b53545345470200000001000000\n\
00000000010000000000010000000000\n\
010100001112131415161718a6b2f28c";

const GOLDEN_SEAL_NOTE: &str = "\
494e4b5354454e440100000000000000\n\
d8100000000000000200000000000000\n\
03000000000000000201000000000000\n\
07000000000000000800000000000000\n\
03000000000000000201000000000000\n\
07000000000000000800000000000000\n\
0000000071695202";

const GOLDEN_REACH_NOTE: &str = "\
494e4b53544641520100000000000000\n\
000001000000000000000000a8db2ae1";

const GOLDEN_FRAMES: &str = "\
494b4652020002000100000001000000\n\
01000000000000000002000100000000\n\
00000000000000000000000000000000\n\
00000000000000000000000000000000\n\
00000000000000000000000000000000\n\
11121314bec3e234494b465202000100\n\
01000000010000000200000000000000\n\
0b020001000000000300000000000000\n\
02010000000000000700000000000000\n\
08000000000000002800000002000000\n\
07388599bec3e23411121314de7ed470\n\
f06975ec0300000005000000696e6b00\n\
afc5dd7508000000060000006f6e2073\n\
746f6e6500000000";
