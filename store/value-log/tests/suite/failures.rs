//! Failed flushes, short writes, full disks.

use crate::support;

use std::sync::{Arc, Mutex};

use environment::simulated::{Fault, Restart, SimulatedDisk};
use support::{explicit, open, payload, put, shared};
use value_log::{Error, Log, Options, Position, Record, Seal};

/// Blocks until the log has all its spare segments, so that I/O counts are
/// the committer's.
fn wait_for_spare_segments(log: &Log, options: &Options) {
    while log.status().spare_segments < options.spare_segments {
        std::thread::yield_now();
    }
}

fn append(log: &Log, bytes: &[u8]) -> Result<value_log::Appended, Error> {
    log.append(&[Record {
        kind: 1,
        parts: &[bytes],
    }])
}

fn stops_after(fault: Fault, seal: Seal) {
    let options = Options { seal, ..explicit() };
    let disk = SimulatedDisk::new(5);
    let (log, _, _) = open(&disk, options.clone()).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    log.on_durable(Box::new(move |result| {
        listener
            .lock()
            .unwrap()
            .push(result.map_err(|it| it.to_string()))
    }));
    let kept = append(&log, b"kept").unwrap();
    log.wait_durable(kept.sequence).unwrap();
    wait_for_spare_segments(&log, &options);
    disk.inject(disk.io_count(), fault);
    let lost = append(&log, &payload(1, 9000)).unwrap();
    let error = log.wait_durable(lost.sequence).unwrap_err();
    assert!(
        error.is_failed() && error.to_string().contains("00000001.log"),
        "{error}"
    );
    for _ in 0..3 {
        assert!(append(&log, b"refused").unwrap_err().is_failed());
        assert!(log.wait_durable(lost.sequence).unwrap_err().is_failed());
        assert!(log.rotate().unwrap_err().is_failed());
    }
    assert!(
        append(&log, &payload(2, 30_000)).unwrap_err().is_failed(),
        "a large one too"
    );
    assert!(log.relocate(0).is_err());
    log.wait_durable(kept.sequence)
        .expect("what was promised stays promised");
    assert!(log.status().failed.is_some());
    assert_eq!(
        log.read(kept.positions[0], 0).unwrap().payload,
        &b"kept"[..],
        "reads go on"
    );
    assert!(matches!(
        log.read(lost.positions[0], 0),
        Err(Error::NotFound { .. })
    ));
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].is_ok() && told[1].is_err(), "{told:?}");
    assert!(log.close().unwrap_err().is_failed());

    disk.evict_clean_pages();
    disk.crash();
    for restart in [Restart::ProcessCrash, Restart::power_loss()] {
        let disk = disk.restart(restart);
        let (log, _, seen) = open(&disk, options.clone()).unwrap();
        assert_eq!(seen[0].1, [b"kept"]);
        assert!(seen.len() <= 2);
        assert!(append(&log, b"on again").is_ok());
    }
}

#[test]
fn a_failed_flush_stops_the_log_until_it_is_opened_again() {
    stops_after(Fault::FailedFlush, Seal::Explicit);
    stops_after(Fault::FailedFlush, Seal::WhenIdle);
}

#[test]
fn a_short_write_stops_the_log_until_it_is_opened_again() {
    stops_after(Fault::ShortWrite { bytes: 4096 }, Seal::Explicit);
    stops_after(Fault::ShortWrite { bytes: 100 }, Seal::WhenIdle);
}

#[test]
fn the_page_cache_is_not_trusted_after_a_failed_flush() {
    let disk = SimulatedDisk::new(5);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    put(&log, 1, b"one").unwrap();
    wait_for_spare_segments(&log, &explicit());
    disk.inject(disk.io_count(), Fault::FailedFlush);
    put(&log, 2, &payload(2, 5000)).unwrap_err();
    drop(log);
    // The same machine, a new process: the pages are clean and show group 2.
    let (log, _, first) = open(&disk, explicit()).unwrap();
    put(&log, 3, b"three").unwrap();
    disk.crash();
    drop(log);
    let disk = disk.restart(Restart::nothing_kept());
    let (_log, _, second) = open(&disk, explicit()).unwrap();
    assert_eq!(
        second[..first.len()],
        first[..],
        "what one recovery showed the next one shows"
    );
    assert_eq!(second.last().unwrap().1, [b"three"]);
}

#[test]
fn a_full_disk_refuses_cleanly_and_goes_on_when_there_is_room() {
    for options in [explicit(), shared()] {
        let disk = SimulatedDisk::new(5);
        disk.set_capacity(300 << 10);
        let (log, _, _) = open(&disk, options.clone()).unwrap();
        let mut positions = Vec::new();
        let refusal = loop {
            match append(&log, &payload(positions.len() as u64, 7000)) {
                Ok(appended) => positions.push(appended.positions[0]),
                Err(error) => break error,
            }
        };
        assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
        assert!(
            positions.len() > 20,
            "{} groups before the disk was full",
            positions.len()
        );
        assert!(append(&log, &payload(0, 20_000)).is_err());
        assert!(matches!(log.rotate(), Err(Error::NoSpace { .. })));
        let small = append(&log, b"there is room for this").unwrap();
        log.wait_durable(small.sequence).unwrap();
        for (number, position) in positions.iter().enumerate() {
            assert_eq!(
                log.read(*position, 0).unwrap().payload,
                payload(number as u64, 7000)
            );
        }
        let oldest = log.segments()[0].id;
        log.release(&[oldest]).unwrap();
        let appended = append(&log, &payload(1, 7000)).unwrap();
        log.wait_durable(appended.sequence).unwrap();
        log.close().unwrap();
        let (log, recovered, _) = open(&disk, options).unwrap();
        assert!(recovered.clean);
        assert!(log.read(appended.positions[0], 0).is_ok());
    }
}

#[test]
fn the_reserve_is_never_touched() {
    let disk = SimulatedDisk::new(5);
    disk.set_capacity(1 << 20);
    let options = Options {
        reserve_bytes: 512 << 10,
        ..explicit()
    };
    let (log, _, _) = open(&disk, options).unwrap();
    let refusal = (0..)
        .find_map(|index| put(&log, index, &payload(index, 6000)).err())
        .unwrap();
    assert!(
        matches!(refusal, Error::NoSpace { needed_bytes, .. } if needed_bytes == 576 << 10),
        "{refusal}"
    );
    use environment::Disk;
    let space = disk
        .space(std::path::Path::new(support::DIRECTORY))
        .unwrap();
    assert!(space.available_bytes >= 512 << 10, "{space:?}");
}

#[test]
fn a_disk_without_room_for_the_first_segment_fails_the_opening() {
    let disk = SimulatedDisk::new(5);
    disk.set_capacity(32 << 10);
    let error = open(&disk, explicit()).err().unwrap();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
}

#[test]
fn an_unreadable_sector_is_an_error_for_its_record_only() {
    let disk = SimulatedDisk::new(5);
    let (log, _, _) = open(&disk, explicit()).unwrap();
    let bad = put(&log, 1, &payload(1, 3000)).unwrap();
    let good = put(&log, 2, &payload(2, 3000)).unwrap();
    disk.fail_reads(&support::segment_path(1), bad.offset()..bad.offset() + 1);
    assert!(matches!(log.read(bad, 0), Err(Error::Io { .. })));
    assert!(log.read(good, 0).is_ok());
    assert!(log.groups(Position::NONE).next().unwrap().is_err());
}
