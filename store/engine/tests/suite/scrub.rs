//! Scrubbing: damage in sealed segments that no reader has met.

use crate::store;

use std::path::{Path, PathBuf};

use engine::{DamagedVersion, ScrubStep, Scrubber};
use environment::simulated::SimulatedDisk;
use environment::{Disk, OpenMode};
use store::{DIRECTORY, Store, put};

/// Fills more than two segments of 64 KiB with values of 1,000 bytes.
fn filled(disk: &SimulatedDisk) -> Store {
    let mut store = Store::new(disk);
    for number in 0..200_u32 {
        store.write(&[put(key(number), value(number))]).unwrap();
    }
    store
}

fn key(number: u32) -> String {
    format!("key{number:04}")
}

fn value(number: u32) -> Vec<u8> {
    let mut value = format!("value of {number:04} ").into_bytes();
    value.resize(1000, b'.');
    value
}

fn first_segment() -> PathBuf {
    Path::new(DIRECTORY).join("00000001.log")
}

/// The offset of a value in the first segment.
fn place_of(disk: &SimulatedDisk, number: u32) -> u64 {
    let file = disk.open(&first_segment(), OpenMode::Read).unwrap();
    let mut content = vec![0; file.size().unwrap() as usize];
    file.read_at(&mut content, 0).unwrap();
    let wanted = value(number);
    let mut parts = content.windows(20);
    parts.position(|part| part == &wanted[..20]).unwrap() as u64
}

/// All steps of a round, as one.
fn round(scrubber: &mut Scrubber) -> ScrubStep {
    let mut whole = ScrubStep::default();
    while !whole.round_over {
        let step = scrubber.step().unwrap();
        whole.bytes += step.bytes;
        whole.damaged.extend(step.damaged);
        whole.rewritten += step.rewritten;
        whole.round_over = step.round_over;
    }
    whole
}

#[test]
fn a_sound_log_is_read_once_per_round_without_findings() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    let mut scrubber = store.engine.scrubber();
    let first = round(&mut scrubber);
    assert!(first.bytes > 2 * 60_000, "{first:?}");
    assert!(first.damaged.is_empty(), "{first:?}");
    let second = round(&mut scrubber);
    assert_eq!((second.bytes, second.rewritten), (first.bytes, 0));
}

#[test]
fn a_flipped_bit_in_a_value_is_found_and_mended_with_the_record_of_another_store() {
    let (disk, donors_disk) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (store, donor) = (filled(&disk), filled(&donors_disk));
    let place = place_of(&disk, 7);
    disk.flip_bit(&first_segment(), place + 5, 3);
    let mut scrubber = store.engine.scrubber();
    let found = round(&mut scrubber);
    let [damage] = &found.damaged[..] else {
        panic!("{found:?}");
    };
    assert_eq!((damage.unreadable, damage.hidden), (1, 0));
    assert_eq!(damage.file, first_segment());
    assert!((damage.offset..damage.offset + damage.bytes).contains(&place));
    let version = DamagedVersion {
        key: key(7).into(),
        main: 9,
    };
    assert_eq!(
        store.engine.damaged_versions(),
        std::slice::from_ref(&version)
    );
    // As long as nothing mends it, each round notes it again and reports nothing new.
    assert!(round(&mut scrubber).damaged.is_empty());
    let record = donor.engine.record_of(&version).unwrap().unwrap();
    assert!(store.engine.mend_version(&version, &record).unwrap());
    let mut fresh = store.engine.scrubber();
    assert!(round(&mut fresh).damaged.is_empty());
    assert!(store.engine.damaged_versions().is_empty());
}

#[test]
fn a_walk_yields_every_version_before_a_damaged_one_and_then_names_its_key() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    let place = place_of(&disk, 7);
    disk.flip_bit(&first_segment(), place + 5, 3);
    let mut walk = store.engine.versions_in_revision_order(0).unwrap();
    for number in 0..7 {
        assert_eq!(walk.next().unwrap().unwrap().key, key(number));
    }
    let error = walk.next().unwrap().unwrap_err();
    assert!(error.to_string().contains(&key(7)), "{error}");
    assert!(walk.next().is_none());
}

#[test]
fn damage_that_no_version_needs_is_reported_once() {
    let disk = SimulatedDisk::new(1);
    let mut store = filled(&disk);
    let place = place_of(&disk, 7);
    store.write(&[put(key(7), "newer")]).unwrap();
    let revision = store.model.revision;
    store.compact(revision).unwrap();
    disk.flip_bit(&first_segment(), place, 0);
    let mut scrubber = store.engine.scrubber();
    let found = round(&mut scrubber);
    assert_eq!(found.damaged.len(), 1, "{found:?}");
    assert_eq!(found.damaged[0].unreadable, 0);
    assert!(round(&mut scrubber).damaged.is_empty());
}

#[test]
fn a_damaged_header_of_a_frame_does_not_hide_damage_behind_it() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    let (header, behind) = (place_of(&disk, 7) - 100, place_of(&disk, 20));
    for byte in 0..8 {
        disk.flip_bit(&first_segment(), header + byte * 8, 1);
    }
    disk.flip_bit(&first_segment(), behind, 1);
    let found = round(&mut store.engine.scrubber());
    assert!(found.damaged.len() >= 2, "{found:?}");
    let unreadable: usize = found.damaged.iter().map(|it| it.unreadable).sum();
    assert!(unreadable >= 1, "{found:?}");
}

#[test]
fn sectors_that_cannot_be_read_count_as_damage() {
    let disk = SimulatedDisk::new(1);
    let store = filled(&disk);
    let place = place_of(&disk, 7);
    disk.fail_reads(&first_segment(), place..place + 100);
    let found = round(&mut store.engine.scrubber());
    assert!(!found.damaged.is_empty(), "{found:?}");
    assert!(!store.engine.damaged_versions().is_empty());
}

#[test]
fn a_scrubber_of_a_closed_engine_fails() {
    let disk = SimulatedDisk::new(1);
    let mut store = filled(&disk);
    let mut scrubber = store.engine.scrubber();
    store.applier.close().unwrap();
    assert!(scrubber.step().is_err());
}
