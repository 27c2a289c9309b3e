//! The bird in the mine: logs with one mistake each, which the simulated
//! disk must catch, and the same log without it, which must pass.
//!
//! A simulation that finds nothing proves nothing. Every mistake here has
//! lost data in a real system; if a change to the disk lets one of them pass,
//! all passing crash tests of other crates prove nothing.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io;
use std::path::Path;
use std::sync::Arc;

use environment::simulated::{Fault, Restart, SimulatedDisk};
use environment::{Disk, File, OpenMode};

/// A mistake of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// Answers when the bytes are in the page cache.
    AcknowledgeBeforeFlush,
    /// Takes a record for whole because its length is there.
    NoChecksum,
    /// Flushes again after a failed flush and believes the answer.
    RetryFailedFlush,
    /// Recovers from the page cache, which after a failed flush shows more
    /// than the device has.
    TrustTheCache,
    /// Shows records that an interrupted process left un-synced, without
    /// making them durable first.
    ServeBeforeSync,
    /// Leaves a created file's name to luck.
    NoDirectorySync,
    /// Believes that a name it finds is durable.
    NoDirectorySyncAtOpen,
}

const DIRECTORY: &str = "/data";
const LOG: &str = "/data/log";
const NEW_LOG: &str = "/data/log.new";
const LOG_BYTES: usize = 16 * 1024;
const RECORDS: usize = 8;
/// Length (4), checksum (4).
const HEADER_BYTES: usize = 8;

/// A log of one pre-written file: zeros mark its end.
struct TinyLog {
    file: Arc<dyn File>,
    mistake: Mistake,
    end: u64,
    /// Every record found at open.
    recovered: Vec<Vec<u8>>,
}

impl TinyLog {
    fn open(disk: &SimulatedDisk, mistake: Mistake) -> io::Result<TinyLog> {
        let directory = Path::new(DIRECTORY);
        disk.create_directories(directory)?;
        let names = disk.list(directory)?;
        if !names.contains(&"log".to_owned()) {
            create_log(disk, names.contains(&"log.new".to_owned()), mistake)?;
        } else if mistake != Mistake::NoDirectorySyncAtOpen {
            disk.sync_directory(directory)?;
        }
        let file = disk.open(Path::new(LOG), OpenMode::ReadWrite)?;
        if mistake != Mistake::ServeBeforeSync {
            file.sync_data()?;
        }
        let view = match mistake {
            Mistake::TrustTheCache => OpenMode::Read,
            _ => OpenMode::ReadDevice,
        };
        let mut bytes = vec![0; LOG_BYTES];
        disk.open(Path::new(LOG), view)?.read_at(&mut bytes, 0)?;
        let (recovered, end) = parse(&bytes, mistake);
        Ok(TinyLog {
            file,
            mistake,
            end,
            recovered,
        })
    }

    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let header = header_of(record);
        let parts = [&header[..], record];
        match self.mistake {
            Mistake::AcknowledgeBeforeFlush => self.file.write_at(&parts, self.end)?,
            Mistake::RetryFailedFlush => {
                let answer = self.file.write_durable_at(&parts, self.end);
                answer.or_else(|_| self.file.sync_data())?;
            }
            _ => self.file.write_durable_at(&parts, self.end)?,
        }
        self.end += (HEADER_BYTES + record.len()) as u64;
        Ok(())
    }
}

fn create_log(disk: &SimulatedDisk, half_made: bool, mistake: Mistake) -> io::Result<()> {
    if half_made {
        disk.remove(Path::new(NEW_LOG))?;
    }
    let file = disk.open(Path::new(NEW_LOG), OpenMode::CreateNew)?;
    file.write_at(&[&[0; LOG_BYTES]], 0)?;
    file.sync_data()?;
    disk.rename(Path::new(NEW_LOG), Path::new(LOG))?;
    if mistake != Mistake::NoDirectorySync {
        disk.sync_directory(Path::new(DIRECTORY))?;
    }
    Ok(())
}

fn header_of(record: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(record.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&checksum(record).to_le_bytes());
    header
}

/// FNV-1a: enough for a bird.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, &byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn parse(bytes: &[u8], mistake: Mistake) -> (Vec<Vec<u8>>, u64) {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        let length = u32::from_le_bytes(header[..4].try_into().unwrap()) as usize;
        let Some(record) = bytes.get(at + HEADER_BYTES..at + HEADER_BYTES + length) else {
            break;
        };
        let whole = mistake == Mistake::NoChecksum || header == header_of(record);
        if length == 0 || !whole {
            break;
        }
        records.push(record.to_vec());
        at += HEADER_BYTES + length;
    }
    (records, at as u64)
}

/// Record `number`, of a length that crosses sectors and blocks.
fn record(number: usize) -> Vec<u8> {
    vec![number as u8 + 1; 300 + number * 577 % 1_500]
}

/// Appends until something fails; returns how many were acknowledged.
fn run(disk: &SimulatedDisk, mistake: Mistake) -> usize {
    let Ok(mut log) = TinyLog::open(disk, mistake) else {
        return 0;
    };
    (0..RECORDS)
        .take_while(|&number| log.append(&record(number)).is_ok())
        .count()
}

/// Recovers, holds the log to its promises and goes on writing; returns how
/// many records it has promised by now, or what is wrong with them.
fn check(disk: &SimulatedDisk, mistake: Mistake, promised: usize) -> Result<usize, String> {
    let Ok(mut log) = TinyLog::open(disk, mistake) else {
        // Refusing to open is honest; a read-only disk leaves no choice.
        return Ok(promised);
    };
    let found = log.recovered.len();
    if let Some(number) = (0..found).find(|&at| log.recovered[at] != record(at)) {
        return Err(format!("record {number} is damaged\n{}", disk.trace()));
    }
    if found < promised {
        let text = format!("{promised} records promised, {found} found");
        return Err(format!("{text}\n{}", disk.trace()));
    }
    let more = (found..found + 2).take_while(|&number| log.append(&record(number)).is_ok());
    Ok(found + more.count())
}

/// What the machine may do to a log that ran, one after the other. What the
/// first restart shows is a promise to the second.
const FATES: [[Restart; 2]; 6] = [
    [
        Restart::power_loss_within_a_sector(),
        Restart::nothing_kept(),
    ],
    [Restart::power_loss(), Restart::nothing_kept()],
    [Restart::power_loss_without_journal(), Restart::power_loss()],
    [Restart::ProcessCrash, Restart::nothing_kept()],
    [Restart::ProcessCrash, Restart::power_loss()],
    [Restart::nothing_kept(), Restart::ProcessCrash],
];

fn restarts(disk: &SimulatedDisk, mistake: Mistake, promised: usize) -> Result<(), String> {
    for fates in FATES {
        let (mut disk, mut promised) = (disk.clone(), promised);
        for fate in fates {
            disk = disk.restart(fate);
            promised = check(&disk, mistake, promised)?;
        }
    }
    Ok(())
}

/// A crash at every I/O, and a failed flush at every I/O, for some seeds.
fn explore(mistake: Mistake) -> Result<(), String> {
    for seed in 0..40 {
        let whole = SimulatedDisk::new(seed);
        assert_eq!(run(&whole, mistake), RECORDS);
        for io in 0..=whole.io_count() {
            let crashing = SimulatedDisk::new(seed);
            crashing.crash_at(io);
            let acknowledged = run(&crashing, mistake);
            restarts(&crashing, mistake, acknowledged)?;

            let failing = SimulatedDisk::new(seed);
            failing.inject(io, Fault::FailedFlush);
            let acknowledged = run(&failing, mistake);
            restarts(&failing, mistake, acknowledged)?;
        }
    }
    Ok(())
}

fn is_caught(mistake: Mistake, complaint: &str) {
    let story = explore(mistake).expect_err("the bird must die");
    assert!(
        story.contains(complaint),
        "{mistake:?} was caught for something else: {story}"
    );
    assert!(story.contains("restart"), "the story tells how: {story}");
}

#[test]
fn a_log_without_a_mistake_passes() {
    explore(Mistake::None).unwrap();
}

#[test]
fn a_log_that_acknowledges_before_the_flush_is_caught() {
    is_caught(Mistake::AcknowledgeBeforeFlush, "promised");
}

#[test]
fn a_log_without_checksums_is_caught() {
    is_caught(Mistake::NoChecksum, "damaged");
}

#[test]
fn a_log_that_retries_a_failed_flush_is_caught() {
    is_caught(Mistake::RetryFailedFlush, "promised");
}

#[test]
fn a_log_that_recovers_from_the_page_cache_is_caught() {
    is_caught(Mistake::TrustTheCache, "promised");
}

#[test]
fn a_log_that_serves_before_it_syncs_is_caught() {
    is_caught(Mistake::ServeBeforeSync, "promised");
}

#[test]
fn a_log_that_never_syncs_its_directory_is_caught() {
    is_caught(Mistake::NoDirectorySync, "promised");
}

#[test]
fn a_log_that_believes_the_names_it_finds_is_caught() {
    is_caught(Mistake::NoDirectorySyncAtOpen, "promised");
}

#[test]
fn a_device_that_ignores_a_flush_defeats_even_the_right_log() {
    let disk = SimulatedDisk::new(1);
    let mut log = TinyLog::open(&disk, Mistake::None).unwrap();
    disk.inject(disk.io_count(), Fault::IgnoredFlush);
    log.append(&record(0)).unwrap();
    check(&disk.restart(Restart::nothing_kept()), Mistake::None, 1).unwrap_err();
}
