//! A log on a simulated disk, and what every test asks of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::OpenMode;
use environment::simulated::SimulatedDisk;
use value_log::{Durability, Error, Log, Options, Position, Record, Recovered, Seal, Tag, Worker};

/// Where the logs live.
pub const DIRECTORY: &str = "/log";
/// Salt of the logs made here.
pub const SALT: u64 = 0x1817_1615_1413_1211;
/// Bytes of a frame header, as `docs/formats/value-log.md` has it.
pub const FRAME_HEADER: u64 = 88;
/// Where a segment's first frame starts.
pub const FRAMES_START: u64 = 4096;

/// Smallest possible segments, each made whole, explicit groups, durable.
pub fn explicit() -> Options {
    Options {
        segment_bytes: 64 << 10,
        spare_segments: 1,
        starts_small: false,
        durability: Durability::Durable,
        group_bytes_max: 16 << 10,
        seal: Seal::Explicit,
        reserve_bytes: 0,
        worker: Worker::Threads,
        salt: Some(SALT),
        ..Options::default()
    }
}

/// The options for a log that makes each segment whole, and for one in which the first segments grow.
pub fn small_and_whole(options: &Options) -> [Options; 2] {
    [true, false].map(|starts_small| Options {
        starts_small,
        ..options.clone()
    })
}

/// The same with shared groups.
pub fn shared() -> Options {
    Options {
        seal: Seal::WhenIdle,
        ..explicit()
    }
}

/// A group as the tests compare it: tag's index and the payloads.
pub type Seen = (u64, Vec<Vec<u8>>);

pub fn open_from(
    disk: &SimulatedDisk,
    options: Options,
    from: Option<Position>,
) -> Result<(Log, Recovered, Vec<Seen>), Error> {
    let mut seen = Vec::new();
    let disk = Arc::new(disk.clone());
    let (log, recovered) = Log::open(disk, Path::new(DIRECTORY), options, from, &mut |group| {
        let payloads = group
            .records
            .iter()
            .map(|(_, _, payload)| payload.to_vec())
            .collect();
        seen.push((group.tag.index, payloads));
        Ok(())
    })?;
    assert_eq!(recovered.groups, seen.len() as u64);
    Ok((log, recovered, seen))
}

pub fn open(disk: &SimulatedDisk, options: Options) -> Result<(Log, Recovered, Vec<Seen>), Error> {
    open_from(disk, options, None)
}

/// Appends one explicit group of one record and waits for it.
pub fn put(log: &Log, index: u64, payload: &[u8]) -> Result<Position, Error> {
    let tag = Tag {
        term: 1,
        index,
        first: index,
        last: index,
    };
    let appended = log.append_group(
        tag,
        &[Record {
            kind: 1,
            parts: &[payload],
        }],
    )?;
    log.wait_durable(appended.sequence)?;
    Ok(appended.positions[0])
}

/// A payload that tells its number and has some length.
pub fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..bytes)
        .map(|at| (at as u64 * 31 + number) as u8)
        .collect();
    let head = number.to_le_bytes();
    let known = head.len().min(bytes);
    payload[..known].copy_from_slice(&head[..known]);
    payload
}

/// Path of a log segment.
pub fn segment_path(id: u32) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{id:08x}.log"))
}

/// Makes a frame header verify in a log of that salt, as
/// `docs/formats/value-log.md` has it.
pub fn sign(header: &mut [u8], salt: u64) {
    let salt = salt.to_le_bytes();
    header[80..84].copy_from_slice(&salt[..4]);
    header[84..88].copy_from_slice(&salt[4..]);
    let crc = crc_fast::crc32_iscsi(&header[..88]);
    header[84..88].copy_from_slice(&crc.to_le_bytes());
}

/// A seed that the environment may move on.
pub fn seed(number: u64) -> u64 {
    let moved = std::env::var("INKSTONE_TEST_SEED").map_or(0, |text| {
        text.parse().expect("INKSTONE_TEST_SEED is a number")
    });
    number.wrapping_add(moved)
}

/// Overwrites bytes of a file, lastingly.
pub fn overwrite(disk: &SimulatedDisk, path: &Path, offset: u64, bytes: &[u8]) {
    use environment::Disk;
    let file = disk.open(path, OpenMode::ReadWrite).unwrap();
    file.write_durable_at(&[bytes], offset).unwrap();
}

/// Bytes of a file.
pub fn bytes_of(disk: &SimulatedDisk, path: &Path, offset: u64, length: usize) -> Vec<u8> {
    use environment::Disk;
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; length];
    assert_eq!(file.read_at(&mut bytes, offset).unwrap(), length);
    bytes
}
