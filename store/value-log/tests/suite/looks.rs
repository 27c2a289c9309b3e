//! Records that are looked at without a copy are the same as when they are read, and stay as they
//! are while they are looked at.

use crate::support;

use std::path::Path;
use std::sync::Arc;

use environment::real::RealDisk;
use environment::simulated::SimulatedDisk;
use environment::{Disk, OpenMode};
use support::{explicit, open, payload, put};
use value_log::{Error, Log, Looks, Position};

const BYTES: usize = 700;

type Place = (Position, usize);

/// Some records of the first segment.
fn fill(log: &Log) -> Vec<Place> {
    let place = |index| {
        let position = put(log, index, &payload(index, BYTES)).unwrap();
        (position, Log::record_bytes(BYTES))
    };
    (1..=9).map(place).collect()
}

fn on_a_real_disk(directory: &tempfile::TempDir) -> Log {
    let disk = Arc::new(RealDisk);
    let opened = Log::open(disk, directory.path(), explicit(), None, &mut |_| Ok(()));
    opened.unwrap().0
}

/// A simulated disk lends nothing, so records are copied there; on a real one they are copied the
/// first time, and then looked at where they are.
fn in_both(test: impl Fn(&Log)) {
    let disk = SimulatedDisk::new(1);
    test(&open(&disk, explicit()).unwrap().0);
    let directory = tempfile::tempdir().unwrap();
    test(&on_a_real_disk(&directory));
}

fn seen(looks: &mut Looks<'_>, place: Place) -> Result<(u8, Vec<u8>), Error> {
    looks.at(place, |kind, payload| (kind, payload.to_vec()))
}

#[test]
fn a_look_sees_what_a_read_returns() {
    in_both(|log| {
        let places = fill(log);
        let mut looks = log.looks();
        for _ in 0..2 {
            looks.announce(&places);
            looks.prefetch(places.iter().copied());
            for &(position, length) in places.iter().rev() {
                let read = log.read(position, length).unwrap();
                let expected = (read.kind, read.payload.to_vec());
                assert_eq!(seen(&mut looks, (position, length)).unwrap(), expected);
            }
            looks.pause();
        }
    });
}

#[test]
fn a_look_at_what_is_no_record_is_an_error() {
    in_both(|log| {
        let places = fill(log);
        let mut looks = log.looks();
        let (position, length) = places[8];
        for _ in 0..2 {
            for wrong in [0, 8, 16, length - 8, 1 << 20] {
                let error = seen(&mut looks, (position, wrong)).unwrap_err();
                assert!(matches!(error, Error::Damaged { .. }), "{wrong}: {error}");
            }
            let behind = Position::new(1, position.offset() + 4096);
            let of_no_segment = Position::new(77, 4096);
            for gone in [behind, of_no_segment] {
                let error = seen(&mut looks, (gone, length)).unwrap_err();
                assert!(matches!(error, Error::NotFound { .. }), "{error}");
            }
            seen(&mut looks, places[8]).unwrap();
        }
        log.rotate().unwrap();
        looks.pause();
        log.release(&[1]).unwrap();
        let error = seen(&mut looks, places[0]).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    });
}

#[test]
fn a_flipped_bit_fails_the_look_at_its_record_alone() {
    let directory = tempfile::tempdir().unwrap();
    let log = on_a_real_disk(&directory);
    let places = fill(&log);
    let mut looks = log.looks();
    for damaged in [false, true] {
        for (number, &place) in places.iter().enumerate() {
            let is_sound = seen(&mut looks, place).is_ok();
            assert_eq!(is_sound, !damaged || number != 4, "{number}");
        }
        let path = directory.path().join("00000001.log");
        let file = RealDisk.open(&path, OpenMode::ReadWrite).unwrap();
        let (at, mut byte) = (places[4].0.offset() + 100, [0]);
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[&[byte[0] ^ 4]], at).unwrap();
    }
}

fn spares(directory: &Path) -> usize {
    let names = RealDisk.list(directory).unwrap();
    names.iter().filter(|name| name.ends_with(".spare")).count()
}

/// Fills some segments, and releases each.
fn go_on(log: &Log, from: u64) {
    for index in from..from + 200 {
        put(log, index, &[0xee; 1_500]).unwrap();
        let segments = log.segments();
        let sealed = segments.iter().filter(|it| it.sealed && it.id > 1);
        let sealed: Vec<u32> = sealed.map(|it| it.id).collect();
        log.release(&sealed).unwrap();
    }
}

#[test]
fn what_is_looked_at_stays_as_it_is_when_its_segment_is_released() {
    let directory = tempfile::tempdir().unwrap();
    let log = on_a_real_disk(&directory);
    let places = fill(&log);
    log.rotate().unwrap();
    let mut looks = log.looks();
    for &place in &places {
        seen(&mut looks, place).unwrap();
    }
    for (number, &place) in places.iter().enumerate() {
        let expected = payload(number as u64 + 1, BYTES);
        let look = |_, payload: &[u8]| {
            if number == 0 {
                log.release(&[1]).unwrap();
            }
            go_on(&log, 1_000 * (number as u64 + 1));
            assert_eq!(payload, expected);
        };
        looks.at(place, look).unwrap();
    }
    looks.pause();
    let error = seen(&mut looks, places[0]).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn a_file_is_used_again_unless_it_is_looked_at() {
    for is_looked_at in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let log = on_a_real_disk(&directory);
        let places = fill(&log);
        log.rotate().unwrap();
        // Nothing is made any more when the one segment that is wanted ready is the next one.
        while log.status().spare_segments < 1 || spares(directory.path()) > 0 {
            std::thread::yield_now();
        }
        let mut looks = log.looks();
        seen(&mut looks, places[0]).unwrap();
        if !is_looked_at {
            looks.pause();
        }
        log.release(&[1]).unwrap();
        assert_eq!(spares(directory.path()), usize::from(!is_looked_at));
    }
}
