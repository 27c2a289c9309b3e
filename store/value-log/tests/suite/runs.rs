//! Records that are read together are the same as when they are read one by one.

use crate::support;

use environment::simulated::SimulatedDisk;
use std::ops::RangeInclusive;
use support::{explicit, open, overwrite, payload, put, segment_path};
use value_log::{Error, Log, Options, Position, ReadRecord, Reads, RecordBuffer};

const BYTES: usize = 700;

/// Some records of one segment, with a gap (the next frame's header) between
/// each two.
fn filled(disk: &SimulatedDisk) -> (Log, Vec<(Position, usize)>) {
    let (log, _, _) = open(disk, explicit()).unwrap();
    let run = appended(&log, 1..=9, BYTES);
    (log, run)
}

/// A log with room for many records in one segment.
fn with_long_segment(disk: &SimulatedDisk) -> Log {
    let options = Options {
        segment_bytes: 4 << 20,
        group_bytes_max: 64 << 10,
        ..explicit()
    };
    open(disk, options).unwrap().0
}

/// Appends records with payloads of as many bytes, one of each index.
fn appended(log: &Log, indexes: RangeInclusive<u64>, bytes: usize) -> Vec<(Position, usize)> {
    let places = indexes.map(|index| {
        let position = put(log, index, &payload(index, bytes)).unwrap();
        (position, Log::record_bytes(bytes))
    });
    places.collect()
}

fn read_run(log: &Log, run: &[(Position, usize)]) -> Result<Vec<RecordBuffer>, Error> {
    let mut reads = log.reads();
    reads.run(run)?;
    Ok(taken(&mut reads))
}

fn taken(reads: &mut Reads<'_>) -> Vec<RecordBuffer> {
    let (bytes, records) = reads.take();
    let record = |record: ReadRecord| RecordBuffer {
        kind: record.kind,
        payload: bytes.slice(record.payload),
    };
    records.map(record).collect()
}

#[test]
fn a_run_gives_the_records_that_single_reads_give() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    for part in [&run[..], &run[2..3], &run[..0]] {
        let records = read_run(&log, part).unwrap();
        assert_eq!(records.len(), part.len());
        for (record, &(position, length)) in records.iter().zip(part) {
            let alone = log.read(position, length).unwrap();
            assert_eq!((record.kind, &record.payload), (alone.kind, &alone.payload));
        }
    }
    let some: Vec<_> = run.iter().copied().step_by(3).collect();
    let payloads = read_run(&log, &some).unwrap().into_iter();
    assert!(
        payloads
            .map(|it| it.payload)
            .eq([1, 4, 7].map(|index| payload(index, BYTES)))
    );
}

#[test]
fn runs_follow_each_other_in_a_buffer_and_one_that_fails_adds_nothing() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    let mut reads = log.reads();
    reads.reserve(100);
    reads.run(&run[6..8]).unwrap();
    let bytes = reads.buffered_bytes();
    let mut too_short = run[1..4].to_vec();
    too_short[2].1 = 16;
    reads.run(&too_short).unwrap_err();
    assert_eq!(reads.buffered_bytes(), bytes);
    reads.run(&run[..1]).unwrap();
    let payloads = taken(&mut reads).into_iter().map(|record| record.payload);
    assert!(payloads.eq([7, 8, 1].map(|index| payload(index, BYTES))));
    assert_eq!(reads.buffered_bytes(), 0);
    assert_eq!(taken(&mut reads), []);
}

#[test]
fn reads_of_the_device_are_announced_unless_they_are_cached() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    log.rotate().unwrap();
    let further = appended(&log, 10..=60, BYTES);
    let places = [&run[..3], &[further[0], further[40], further[41]]].concat();
    log.reads().announce(&places);
    assert_eq!(disk.take_announced(), [], "they are cached");
    disk.cache_nothing();
    log.reads().announce(&places[..1]);
    assert_eq!(disk.take_announced(), [], "one has no other to wait beside");
    log.reads().announce(&places);
    let range = |places: &[(Position, usize)]| {
        let (start, last) = (places[0].0.offset(), places[places.len() - 1]);
        let end = last.0.offset() + last.1 as u64;
        (start, end - start)
    };
    let expected = [
        range(&places[..3]),
        range(&places[3..4]),
        range(&places[4..]),
    ];
    assert_eq!(disk.take_announced(), expected);
}

/// Answers in a row after which readers of short lists expect to find all cached.
const EXPECTING_ROW: usize = 1024;
/// Lists of two records of which one is asked for then.
const LISTS_FOR_A_TURN: usize = 256;

fn is_announced(disk: &SimulatedDisk, log: &Log, places: &[(Position, usize)]) -> bool {
    log.reads().announce(places);
    !disk.take_announced().is_empty()
}

/// Announces cached lists of two records.
fn announce_cached(disk: &SimulatedDisk, log: &Log, run: &[(Position, usize)], lists: usize) {
    for _ in 0..lists {
        assert!(!is_announced(disk, log, &run[..2]));
    }
}

#[test]
fn where_all_was_cached_short_lists_are_asked_for_in_turn_until_one_is_not() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    announce_cached(&disk, &log, &run, EXPECTING_ROW + LISTS_FOR_A_TURN);
    disk.cache_nothing();
    let asks = |_: &usize| is_announced(&disk, &log, &run[..2]);
    assert_eq!((1..).find(asks), Some(LISTS_FOR_A_TURN));
    assert!((0..10).all(|number| asks(&number)));
    disk.cache_all();
    announce_cached(&disk, &log, &run, EXPECTING_ROW - 1);
    disk.cache_nothing();
    assert!(asks(&0), "the row begins again after that one");
}

#[test]
fn a_list_is_asked_for_in_its_turn_also_soon_after_an_earlier_one_of_the_same_looks() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    announce_cached(&disk, &log, &run, EXPECTING_ROW - 1);
    let mut looks = log.looks();
    assert!(!looks.announce(&run[..2]));
    announce_cached(&disk, &log, &run, LISTS_FOR_A_TURN - 1);
    disk.cache_nothing();
    assert!(looks.announce(&run[..2]));
}

#[test]
fn a_list_of_many_records_or_bytes_is_asked_for_also_where_all_was_cached() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    let many = appended(&log, 10..=74, BYTES);
    let of_many_bytes = appended(&log, 75..=83, 8_000);
    announce_cached(&disk, &log, &run, EXPECTING_ROW);
    for (short, long) in [
        (&many[..64], &many[..]),
        (&of_many_bytes[..8], &of_many_bytes[..]),
    ] {
        disk.cache_nothing();
        assert!(!is_announced(&disk, &log, short));
        assert!(is_announced(&disk, &log, long));
        disk.cache_all();
        announce_cached(&disk, &log, &run, EXPECTING_ROW);
    }
}

#[test]
fn lists_with_a_record_of_several_pages_are_always_asked_for_and_say_nothing_about_others() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    let long = appended(&log, 10..=11, 9_000);
    let mixed = [&run[..1], &long[..1]].concat();
    for list in [&long, &mixed] {
        announce_cached(&disk, &log, &run, EXPECTING_ROW - 1);
        assert!(!is_announced(&disk, &log, list));
        disk.cache_nothing();
        assert!(
            is_announced(&disk, &log, &run[..2]),
            "the row was not longer"
        );
        disk.cache_all();
        announce_cached(&disk, &log, &run, EXPECTING_ROW);
        disk.cache_nothing();
        assert!(is_announced(&disk, &log, list));
        assert!(!is_announced(&disk, &log, &run[..2]), "the row goes on");
        // The next row begins behind an answer that these are not cached.
        while !is_announced(&disk, &log, &run[..2]) {}
        disk.cache_all();
    }
}

#[test]
fn of_a_place_of_several_pages_all_are_asked_for() {
    let disk = SimulatedDisk::new(1);
    let log = with_long_segment(&disk);
    let places = appended(&log, 10..=14, 2_000);
    let last = places[4].0.offset() + places[4].1 as u64;
    for (cached, is_announced_now) in [(last, false), (last - 1, true), (0, true)] {
        disk.cache_first_bytes(cached);
        assert_eq!(is_announced(&disk, &log, &places), is_announced_now);
    }
}

#[test]
fn of_scattered_records_one_of_64_is_asked_for() {
    let disk = SimulatedDisk::new(1);
    let log = with_long_segment(&disk);
    let with_gaps = (10..=267).map(|index| {
        let bytes = if index % 2 == 0 { BYTES } else { 5_000 };
        appended(&log, index..=index, bytes)[0]
    });
    let scattered: Vec<_> = with_gaps.step_by(2).collect();
    for uncached in [1, 63, 64, 65, 127, 128] {
        let (position, bytes) = scattered[uncached];
        disk.cache_first_bytes(position.offset() + bytes as u64 - 1);
        let is_announced = is_announced(&disk, &log, &scattered[..=uncached]);
        assert_eq!(is_announced, uncached % 64 == 0, "{uncached}");
    }
}

#[test]
fn a_log_seems_cached_as_its_last_answer_said() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    assert!(!log.seems_cached(), "nothing was asked");
    announce_cached(&disk, &log, &run, 1);
    assert!(log.seems_cached());
    disk.cache_nothing();
    assert!(is_announced(&disk, &log, &run[..2]));
    assert!(!log.seems_cached());
}

#[test]
fn one_record_is_asked_for_and_announced_unless_one_read_fetches_it() {
    let disk = SimulatedDisk::new(1);
    let log = with_long_segment(&disk);
    for (index, bytes, is_announced) in [
        (10, 100, false),
        (11, 9_000, true),
        (12, 30_000, true),
        (13, 40_000, false),
    ] {
        let one = appended(&log, index..=index, bytes);
        disk.cache_all();
        assert!(!log.looks().announce(&one), "{bytes}: cached");
        disk.cache_nothing();
        assert!(log.looks().announce(&one), "{bytes}");
        assert_eq!(!disk.take_announced().is_empty(), is_announced, "{bytes}");
    }
}

#[test]
fn looks_at_what_is_seldom_read_ask_for_themselves_and_say_nothing_to_others() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    announce_cached(&disk, &log, &run, EXPECTING_ROW);
    disk.cache_nothing();
    assert!(!log.looks().announce(&run[..2]));
    assert!(log.looks_at_seldom_read().announce(&run[..2]));
    assert!(!log.looks().announce(&run[..2]));
}

#[test]
fn places_that_are_gone_or_beyond_their_segment_are_not_announced() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    disk.cache_nothing();
    let beyond = (run[8].0, 1 << 30);
    let of_no_segment = Position::new(77, 4096);
    let mut reads = log.reads();
    reads.announce(&[beyond, (of_no_segment, 64)]);
    reads.prefetch(&[beyond, (of_no_segment, 64)]);
    log.rotate().unwrap();
    log.release(&[1]).unwrap();
    log.reads().announce(&run);
    assert_eq!(disk.take_announced(), []);
}

#[test]
fn a_flipped_bit_in_one_record_fails_the_run_and_none_of_the_others() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    let offset = run[4].0.offset() + 100;
    let good = support::bytes_of(&disk, &segment_path(1), offset, 1);
    overwrite(&disk, &segment_path(1), offset, &[good[0] ^ 4]);
    assert!(
        matches!(read_run(&log, &run), Err(Error::Damaged { offset, .. })
        if offset == run[4].0.offset())
    );
    let alone = run
        .iter()
        .map(|&(position, length)| log.read(position, length).is_ok());
    assert!(alone.eq((0..9).map(|number| number != 4)));
    assert_eq!(read_run(&log, &run[5..]).unwrap().len(), 4);
}

#[test]
fn a_run_that_is_released_or_not_written_yet_is_not_found() {
    let disk = SimulatedDisk::new(1);
    let (log, run) = filled(&disk);
    let behind = Position::new(1, run[8].0.offset() + 4096);
    let mut longer = run.clone();
    longer.push((behind, 64));
    assert!(matches!(
        read_run(&log, &longer),
        Err(Error::NotFound { .. })
    ));
    log.rotate().unwrap();
    log.release(&[1]).unwrap();
    assert!(matches!(read_run(&log, &run), Err(Error::NotFound { .. })));
}

#[test]
fn a_length_beyond_the_segment_is_damage_and_not_a_panic() {
    let disk = SimulatedDisk::new(1);
    let (log, mut run) = filled(&disk);
    run[8].1 = 1 << 20;
    assert!(matches!(read_run(&log, &run), Err(Error::Damaged { .. })));
    run[8].1 = 16;
    assert!(
        matches!(read_run(&log, &run), Err(Error::Damaged { .. })),
        "too short for its payload"
    );
}
