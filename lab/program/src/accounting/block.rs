//! Counters of a block device, and the disk space that a folder occupies.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs::DiskStat;

use crate::record::{BlockDevice, DeviceWork};

/// The kernel counts in sectors of this size, independent of the device's own.
const SECTOR_BYTES: u64 = 512;

/// Work of a block device since the kernel has known it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounters {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    busy_ms: u64,
    flushes: u64,
    flush_ms: u64,
}

impl BlockCounters {
    /// Reads the present counters; `None` where the kernel counts no flushes (before Linux
    /// 5.5).
    pub fn of(device: &str) -> Option<BlockCounters> {
        let mut disks = procfs::diskstats().ok()?.into_iter();
        // The names differ where a device has a folder of its own in `/dev`.
        counters(&disks.find(|disk| disk.name.replace('/', "!") == device)?)
    }

    /// The work between `earlier` and these counters.
    pub fn since(&self, earlier: &BlockCounters, device: &BlockDevice) -> DeviceWork {
        DeviceWork {
            device: device.name.clone(),
            shared: !device.private,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            flushes: self.flushes - earlier.flushes,
            flush_seconds: (self.flush_ms - earlier.flush_ms) as f64 / 1e3,
            busy_seconds: (self.busy_ms - earlier.busy_ms) as f64 / 1e3,
        }
    }
}

fn counters(disk: &DiskStat) -> Option<BlockCounters> {
    Some(BlockCounters {
        reads: disk.reads,
        read_bytes: disk.sectors_read * SECTOR_BYTES,
        writes: disk.writes,
        written_bytes: disk.sectors_written * SECTOR_BYTES,
        busy_ms: disk.time_in_progress,
        flushes: disk.flushes?,
        flush_ms: disk.time_flushing?,
    })
}

/// The whole device (not the partition) that the file system of `directory` is on;
/// `None` for a file system without a device, such as tmpfs.
pub fn device_of(directory: &Path, private: bool) -> Option<BlockDevice> {
    let number = std::fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition lies inside its device, and the device counts the flushes.
    let whole = match folder.join("partition").exists() {
        true => folder.parent()?.to_owned(),
        false => folder,
    };
    let name = whole.file_name()?.to_string_lossy().into_owned();
    let queue = |file: &str| {
        let text = std::fs::read_to_string(whole.join("queue").join(file));
        text.unwrap_or_default().trim().to_owned()
    };
    Some(BlockDevice {
        cache: queue("write_cache"),
        forced_unit_access: queue("fua") == "1",
        scheduler: chosen(&queue("scheduler")),
        rotational: queue("rotational") == "1",
        name,
        private,
    })
}

/// `none [mq-deadline]` is `mq-deadline`.
fn chosen(schedulers: &str) -> String {
    let inner = schedulers
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(schedulers, |(inner, _)| inner).to_owned()
}

/// Bytes that files below `directory` occupy, as `du` counts them.
pub fn footprint_bytes(directory: &Path) -> u64 {
    let mut folders: Vec<PathBuf> = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            // Files come and go while a target works.
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * SECTOR_BYTES,
                Err(_) => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_counters_are_parsed() {
        let parse = |fields: &str| {
            let disk = DiskStat::from_line(&format!("253 0 vda {fields}")).unwrap();
            counters(&disk)
        };
        let found = parse("1 2 3 4 50 6 70 8 9 10 11 12 13 14 15 160 17").unwrap();
        assert_eq!((found.reads, found.read_bytes), (1, 3 * 512));
        assert_eq!((found.writes, found.written_bytes), (50, 70 * 512));
        assert_eq!(
            (found.busy_ms, found.flushes, found.flush_ms),
            (10, 160, 17)
        );
        assert!(parse("1 2 3 4 50 6 70 8 9 10 11").is_none());
    }

    #[test]
    fn the_chosen_scheduler_stands_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn footprint_counts_files_in_subfolders() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("below/file"), vec![1; 10_000]).unwrap();
        rustix::fs::sync();
        assert!(footprint_bytes(folder.path()) >= 10_000);
    }
}
