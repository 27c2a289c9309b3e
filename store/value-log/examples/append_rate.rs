//! How long an append takes: `cargo run --release -p value-log --example append_rate`.
//!
//! One producer, 549-byte records, page-cache durability; beside it, in the
//! same run, the cost that cannot be avoided: one copy and one checksum of the record.
//! Best of several rounds; on a machine that does other work besides, the
//! flush thread takes the producer's core and the figures say little.

#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the engine: it measures real time"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use environment::real::RealDisk;
use environment::{Disk, OpenMode};
use value_log::{Durability, Log, Options, Record, Seal, Tag};

const RECORD_BYTES: usize = 549;
/// As many as a segment holds, so that during the measurement no other thread makes
/// segments and no flush is measured.
const RECORDS: u32 = 90_000;
const ROUNDS: u32 = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let payload: Vec<u8> = (0..RECORD_BYTES).map(|at| at as u8).collect();
    println!("copy+CRC  {:7.1} ns/record", floor(&payload));
    for (name, seal) in [("shared", Seal::WhenIdle), ("explicit", Seal::Explicit)] {
        let mut best = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            let (returned, done) = rate(seal, &payload)?;
            best = (best.0.min(returned), best.1.min(done));
        }
        let (returned, done) = best;
        println!("{name:8}  {returned:7.1} ns/record returned, {done:7.1} in the page cache");
    }
    let (raw, durable) = durable_latency(&payload)?;
    println!("durable    {raw:7.1} us/write raw, {durable:7.1} us/append");
    Ok(())
}

/// Median microseconds of a durable 4 KiB overwrite and of a durable append,
/// taken in turns.
fn durable_latency(payload: &[u8]) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let file = RealDisk.open(&directory.path().join("raw"), OpenMode::CreateNew)?;
    let block = vec![1; 4096];
    file.write_at(&[&vec![0; 4 << 20]], 0)?;
    file.sync_data()?;
    let (log, _) = Log::open(
        Arc::new(RealDisk),
        directory.path(),
        Options {
            starts_small: false,
            ..Options::default()
        },
        None,
        &mut |_| Ok(()),
    )?;
    while log.status().spare_segments < Options::default().spare_segments {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (mut raw, mut durable) = (Vec::new(), Vec::new());
    for turn in 0..500 {
        let start = Instant::now();
        file.write_durable_at(&[&block], turn * 4096)?;
        raw.push(start.elapsed().as_nanos());
        let start = Instant::now();
        let appended = log.append(&[Record {
            kind: 1,
            parts: &[payload],
        }])?;
        log.wait_durable(appended.sequence)?;
        durable.push(start.elapsed().as_nanos());
    }
    raw.sort_unstable();
    durable.sort_unstable();
    Ok((raw[250] as f64 / 1e3, durable[250] as f64 / 1e3))
}

/// Nanoseconds to copy and checksum a record, into memory as large as a
/// buffer of the log.
fn floor(payload: &[u8]) -> f64 {
    let mut target = vec![0; 2 << 20];
    let copies = 10 * RECORDS;
    let start = Instant::now();
    let mut at = 0;
    for _ in 0..copies {
        if at + payload.len() > target.len() {
            at = 0;
        }
        let slot = &mut target[at..at + payload.len()];
        slot.copy_from_slice(black_box(payload));
        black_box(crc_fast::crc32_iscsi(slot));
        at += payload.len() + 19;
    }
    start.elapsed().as_nanos() as f64 / f64::from(copies)
}

/// Nanoseconds per record until `append` returned, and until all was done.
fn rate(seal: Seal, payload: &[u8]) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let options = Options {
        durability: Durability::Os,
        seal,
        spare_segments: 1,
        starts_small: false,
        ..Options::default()
    };
    let (log, _) = Log::open(
        Arc::new(RealDisk),
        directory.path(),
        options,
        None,
        &mut |_| Ok(()),
    )?;
    while log.status().spare_segments < 1 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let start = Instant::now();
    for _ in 0..RECORDS {
        let record = Record {
            kind: 1,
            parts: &[black_box(payload)],
        };
        match seal {
            Seal::WhenIdle => log.append(&[record])?,
            Seal::Explicit => log.append_group(Tag::default(), &[record])?,
        };
    }
    let returned = start.elapsed();
    log.wait_durable(log.status().appended)?;
    let done = start.elapsed();
    let each = |time: std::time::Duration| time.as_nanos() as f64 / f64::from(RECORDS);
    Ok((each(returned), each(done)))
}
