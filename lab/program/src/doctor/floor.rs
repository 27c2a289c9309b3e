//! Cost of a durable write of 4 KiB on a device, for each way of writing it.
//!
//! The state of the file decides: overwriting blocks that were written before takes one
//! flush, while an append, a hole or a preallocated block changes metadata too, which takes
//! a second one.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags};

use crate::accounting::BlockCounters;
use crate::record::{BlockDevice, DeviceWork, Histogram};
use crate::targets::plain::write_at;

const BLOCK_BYTES: usize = 4096;
/// Most writes of one way; the file has room for them.
const WRITES_MAX: u64 = 2000;

/// A way of making a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Appends, each followed by fdatasync.
    AppendSync,
    /// Into blocks of fallocate, each followed by fdatasync.
    FallocateSync,
    /// Over written blocks, each followed by fdatasync.
    OverwriteSync,
    /// Over written blocks, with RWF_DSYNC.
    OverwriteDsync,
    /// Over written blocks of a file opened with O_DIRECT and O_DSYNC.
    DirectDsync,
}

/// All ways, with their names in tables.
pub const WAYS: [(Way, &str); 5] = [
    (Way::AppendSync, "append, fdatasync"),
    (Way::FallocateSync, "fallocated, fdatasync"),
    (Way::OverwriteSync, "overwrite, fdatasync"),
    (Way::OverwriteDsync, "overwrite, RWF_DSYNC"),
    (Way::DirectDsync, "overwrite, O_DIRECT|O_DSYNC"),
];

/// Measured cost of one way.
#[derive(Clone, Debug)]
pub struct Floor {
    /// Durable writes of 4 KiB.
    pub writes: u64,
    /// Duration of each write, in nanoseconds.
    pub latency: Histogram,
    /// Device work of all writes together; `None` where there is no device.
    pub device: Option<DeviceWork>,
}

/// Measures durable writes in a new file of `directory` for `longest`, or until
/// `WRITES_MAX` writes.
pub fn measure_floor(
    way: Way,
    directory: &Path,
    device: Option<&BlockDevice>,
    longest: Duration,
) -> std::io::Result<Floor> {
    let path = directory.join("floor");
    let file = prepare(way, &path)?;
    rustix::fs::sync();
    let block = Aligned::new();
    let counters = || BlockCounters::of(&device?.name);
    let before = counters();
    let mut latency = Histogram::default();
    let begun = Instant::now();
    while latency.count() < WRITES_MAX && begun.elapsed() < longest {
        let at = latency.count() * BLOCK_BYTES as u64;
        let start = Instant::now();
        write(way, &file, block.bytes(), at)?;
        latency.record(start.elapsed().as_nanos() as u64);
    }
    let after = counters();
    drop(file);
    std::fs::remove_file(&path)?;
    let counted = before.zip(after).zip(device);
    Ok(Floor {
        writes: latency.count(),
        latency,
        device: counted.map(|((before, after), device)| after.since(&before, device)),
    })
}

fn prepare(way: Way, path: &Path) -> std::io::Result<File> {
    let flags = match way {
        Way::DirectDsync => OFlags::DIRECT | OFlags::DSYNC,
        _ => OFlags::empty(),
    };
    let room = WRITES_MAX * BLOCK_BYTES as u64;
    let mut file = File::create(path)?;
    match way {
        Way::AppendSync => {}
        Way::FallocateSync => rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, room)?,
        _ => file.write_all(&vec![0; room as usize])?,
    }
    file.sync_all()?;
    let mut options = File::options();
    options.write(true).custom_flags(flags.bits() as i32);
    options.open(path)
}

fn write(way: Way, file: &File, block: &[u8], at: u64) -> std::io::Result<()> {
    match way {
        Way::OverwriteDsync => write_at(file, block, at, true),
        Way::DirectDsync => file.write_all_at(block, at),
        Way::AppendSync | Way::FallocateSync | Way::OverwriteSync => {
            file.write_all_at(block, at)?;
            file.sync_data()
        }
    }
}

/// A block at an address that is aligned as O_DIRECT requires.
struct Aligned(Vec<u8>);

impl Aligned {
    fn new() -> Aligned {
        Aligned(vec![b'i'; 2 * BLOCK_BYTES])
    }

    fn bytes(&self) -> &[u8] {
        let start = self.0.as_ptr().align_offset(BLOCK_BYTES);
        &self.0[start..start + BLOCK_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffered_way_writes_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for way in [Way::AppendSync, Way::OverwriteSync, Way::OverwriteDsync] {
            let floor = measure_floor(way, folder.path(), None, Duration::from_millis(5)).unwrap();
            assert!(floor.writes > 0 && floor.latency.count() == floor.writes);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_block_is_aligned() {
        assert_eq!(Aligned::new().bytes().as_ptr() as usize % BLOCK_BYTES, 0);
    }
}
