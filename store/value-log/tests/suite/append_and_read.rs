//! What goes in comes out: both ways of sealing, every size, after reopening.

use crate::support;

use std::sync::Arc;

use environment::real::RealDisk;
use environment::simulated::SimulatedDisk;
use support::{explicit, open, payload, put, shared};
use value_log::{Durability, Error, Log, Options, Position, Record, Tag};

const SIZES: [usize; 14] = [
    0, 1, 3, 4, 5, 100, 549, 1012, 1013, 4000, 4096, 9000, 20_000, 60_000,
];

fn write_all_sizes(log: &Log) -> Vec<(Position, Vec<u8>)> {
    let mut written = Vec::new();
    for round in 0..8 {
        for (number, &bytes) in SIZES.iter().enumerate() {
            let payload = payload(round * 100 + number as u64, bytes);
            let (left, right) = payload.split_at(bytes / 3);
            let appended = log
                .append(&[Record {
                    kind: number as u8,
                    parts: &[left, right],
                }])
                .unwrap();
            written.push((appended.positions[0], payload));
            if number % 5 == 0 {
                log.wait_durable(appended.sequence).unwrap();
            }
        }
    }
    log.wait_durable(log.status().appended).unwrap();
    written
}

fn check_all(log: &Log, written: &[(Position, Vec<u8>)]) {
    for (position, payload) in written {
        for hint in [0, 1, 11, 16, Log::record_bytes(payload.len()), 1024, 5000] {
            let record = log.read(*position, hint).unwrap();
            assert!(record.payload == payload[..], "{position} with hint {hint}");
            let same = |kind, seen: &[u8]| kind == record.kind && seen == payload;
            let seen = log.look_at(*position, hint, same).unwrap();
            assert!(seen, "{position} looked at with hint {hint}");
        }
    }
    let read: Vec<Vec<u8>> = log
        .groups(Position::NONE)
        .flat_map(|group| group.unwrap().records)
        .map(|(_, _, payload)| payload.to_vec())
        .collect();
    assert!(
        read.iter().eq(written.iter().map(|(_, payload)| payload)),
        "groups give the same in order"
    );
}

fn round_trip(options: Options) {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, options.clone()).unwrap();
    let written = write_all_sizes(&log);
    check_all(&log, &written);
    log.close().unwrap();
    let (log, recovered, seen) = open(&disk, options).unwrap();
    assert!(recovered.clean && !recovered.torn, "{recovered:?}");
    let payloads: Vec<Vec<u8>> = seen
        .into_iter()
        .flat_map(|(_, payloads)| payloads)
        .collect();
    assert!(
        payloads
            .iter()
            .eq(written.iter().map(|(_, payload)| payload))
    );
    check_all(&log, &written);
}

#[test]
fn explicit_groups_of_every_size_come_back() {
    round_trip(explicit());
}

#[test]
fn shared_groups_of_every_size_come_back() {
    round_trip(shared());
}

#[test]
fn page_cache_durability_comes_back_after_a_clean_close() {
    round_trip(Options {
        durability: Durability::Os,
        ..shared()
    });
}

#[test]
fn the_same_on_a_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let mut groups = 0;
        let opened = Log::open(
            Arc::new(RealDisk),
            directory.path(),
            explicit(),
            None,
            &mut |_| {
                groups += 1;
                Ok(())
            },
        );
        let (log, recovered) = opened.unwrap();
        assert_eq!(recovered.groups, groups);
        (log, recovered)
    };
    let (log, _) = open();
    let written = write_all_sizes(&log);
    check_all(&log, &written);
    drop(log);
    let (log, recovered) = open();
    assert!(recovered.clean);
    assert_eq!(recovered.groups, written.len() as u64);
    check_all(&log, &written);
}

#[test]
fn a_group_keeps_its_tag_and_all_its_records() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let tag = Tag {
        term: 3,
        index: 7,
        first: 100,
        last: 101,
    };
    let records = [
        Record {
            kind: 5,
            parts: &[b"one"],
        },
        Record {
            kind: 6,
            parts: &[b"two", b"2"],
        },
    ];
    let appended = log.append_group(tag, &records).unwrap();
    log.append_group(tag, &[]).unwrap();
    log.wait_durable(log.status().appended).unwrap();
    let groups: Vec<_> = log.groups(Position::NONE).map(Result::unwrap).collect();
    assert_eq!(
        (groups.len(), groups[0].tag, groups[0].sequence),
        (2, tag, appended.sequence)
    );
    let kinds: Vec<_> = groups[0]
        .records
        .iter()
        .map(|(at, kind, bytes)| (*at, *kind, &bytes[..]))
        .collect();
    let [first, second] = appended.positions[..] else {
        panic!("two records")
    };
    assert_eq!(kinds, [(first, 5, &b"one"[..]), (second, 6, &b"two2"[..])]);
    assert!(groups[1].records.is_empty());
}

#[test]
fn groups_start_anywhere_and_resume() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let positions: Vec<Position> = (1..=200)
        .map(|index| put(&log, index, &payload(index, 1000)).unwrap())
        .collect();
    let all: Vec<_> = log.groups(Position::NONE).map(Result::unwrap).collect();
    assert_eq!(all.len(), 200);
    assert!(
        all[0].start.segment() < all[199].start.segment(),
        "several segments"
    );
    for (at, group) in all.iter().enumerate() {
        let first = |from| {
            log.groups(from)
                .next()
                .map(|group| group.unwrap().tag.index)
        };
        assert_eq!(first(group.start), Some(at as u64 + 1));
        assert_eq!(first(positions[at]), Some(at as u64 + 1));
        assert_eq!(first(group.end), (at < 199).then_some(at as u64 + 2));
    }
    let mut groups = log.groups(all[199].end);
    assert!(groups.next().is_none());
    put(&log, 201, b"late").unwrap();
    assert_eq!(groups.next().unwrap().unwrap().tag.index, 201);
    assert!(groups.next().is_none());
}

#[test]
fn reading_a_missing_record_is_an_error_and_never_other_bytes() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let position = put(&log, 1, &payload(1, 500)).unwrap();
    let beyond = Position::new(position.segment(), 60_000);
    for missing in [Position::NONE, beyond, Position::new(99, 4096)] {
        assert!(
            matches!(log.read(missing, 0), Err(Error::NotFound { .. })),
            "{missing}"
        );
        let looked = log.look_at(missing, 520, |_, _| ());
        assert!(matches!(looked, Err(Error::NotFound { .. })), "{missing}");
    }
    let inside = Position::new(position.segment(), position.offset() + 8);
    for hint in [0, 16, 520, 5000] {
        let looked = log.look_at(inside, hint, |_, _| ());
        assert!(matches!(looked, Err(Error::Damaged { .. })), "hint {hint}");
        assert!(matches!(log.read(inside, hint), Err(Error::Damaged { .. })));
    }
}

#[test]
fn wrong_calls_have_errors_of_their_own() {
    let disk = SimulatedDisk::new(1);
    let (log, _, _) = open(&disk, shared()).unwrap();
    let misuse = log.append_group(Tag::default(), &[]).unwrap_err();
    assert!(misuse.to_string().contains("Seal::Explicit"), "{misuse}");
    assert!(matches!(log.append(&[]), Err(Error::Misuse { .. })));
    let huge = payload(1, 64 << 10);
    let error = log
        .append(&[Record {
            kind: 0,
            parts: &[&huge],
        }])
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                limit_bytes: 61_440,
                ..
            }
        ),
        "{error}"
    );
    for options in [
        Options {
            segment_bytes: 100_000,
            ..shared()
        },
        Options {
            spare_segments: 0,
            ..shared()
        },
        Options {
            group_bytes_max: 1,
            ..shared()
        },
    ] {
        assert!(matches!(open(&disk, options), Err(Error::Option { .. })));
    }
}
