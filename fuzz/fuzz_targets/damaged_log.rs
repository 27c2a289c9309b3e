//! A log in which the fuzzer overwrites bytes: opening refuses it, or gives
//! back a prefix of what was appended, unchanged. Never other bytes, no panic.
#![no_main]

use std::{path::Path, sync::Arc};

use environment::{Disk, OpenMode, simulated::SimulatedDisk};
use libfuzzer_sys::fuzz_target;
use value_log::{Durability, Log, Options, Record, Seal, Tag};

const DIRECTORY: &str = "/log";
const GROUPS: u8 = 12;

fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        spare_segments: 1,
        durability: Durability::Durable,
        group_bytes_max: 16 << 10,
        seal: Seal::Explicit,
        reserve_bytes: 0,
        salt: Some(1),
        ..Options::default()
    }
}

/// What group `number` holds: some smaller than a block, some larger.
fn payload(number: u8) -> Vec<u8> {
    vec![number; usize::from(number) * 700 + 1]
}

fn written() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (log, _) = Log::open(
        Arc::new(disk.clone()),
        Path::new(DIRECTORY),
        options(),
        None,
        &mut |_| Ok(()),
    )
    .expect("an empty directory opens");
    for number in 0..GROUPS {
        let record = Record {
            kind: 1,
            parts: &[&payload(number)],
        };
        log.append_group(Tag::default(), &[record])
            .expect("the disk is fine");
    }
    drop(log);
    disk
}

/// Each four bytes of `data` overwrite one byte of the first segment.
fn damage(disk: &SimulatedDisk, data: &[u8]) {
    let path = Path::new(DIRECTORY).join("00000001.log");
    let file = disk
        .open(&path, OpenMode::ReadWrite)
        .expect("the first segment");
    for change in data.chunks_exact(4) {
        let offset = u64::from(u16::from_le_bytes([change[0], change[1]]));
        file.write_at(&[&change[2..]], offset)
            .expect("the disk is fine");
    }
    file.sync_data().expect("the disk is fine");
}

fuzz_target!(|data: &[u8]| {
    thread_local!(static WRITTEN: SimulatedDisk = written());
    let disk = WRITTEN.with(SimulatedDisk::fork);
    damage(&disk, data);
    let mut next = 0;
    let opened = Log::open(
        Arc::new(disk),
        Path::new(DIRECTORY),
        options(),
        None,
        &mut |group| {
            for (_, _, found) in &group.records {
                assert_eq!(found[..], payload(next), "group {next}");
                next += 1;
            }
            Ok(())
        },
    );
    if data.is_empty() {
        assert!(opened.is_ok());
        assert_eq!(next, GROUPS);
    }
});
