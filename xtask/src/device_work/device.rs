//! A loop device with ext4 that exists for one measurement.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::process::{Outcome, capture};

const IMAGE_BYTES: u64 = 2 << 30;
/// Unit of the device's counters, independent of its own sector size.
const SECTOR_BYTES: u64 = 512;
const QUIET_SECONDS: u64 = 60;

/// Mounted until dropped.
pub struct LoopDevice {
    folder: tempfile::TempDir,
    /// As in `/dev/loop3`.
    device: String,
}

/// Requests to the device since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
}

impl LoopDevice {
    /// Creates the image, the loop device and the file system, and mounts it.
    pub fn create() -> Outcome<LoopDevice> {
        let folder = tempfile::tempdir()?;
        let image = folder.path().join("image");
        fs::File::create(&image)?.set_len(IMAGE_BYTES)?;
        let device = capture(
            Command::new("losetup")
                .args(["--find", "--show"])
                .arg(&image),
        )?;
        let device = LoopDevice {
            folder,
            device: device.trim().to_owned(),
        };
        // Nothing may be left for the kernel to write later on its own.
        let now = "lazy_itable_init=0,lazy_journal_init=0";
        capture(Command::new("mkfs.ext4").args(["-q", "-E", now, &device.device]))?;
        fs::create_dir_all(device.mount_point())?;
        capture(
            Command::new("mount")
                .arg(&device.device)
                .arg(device.mount_point()),
        )?;
        Ok(device)
    }

    /// The root of its file system.
    pub fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Reads the device's counters.
    pub fn counters(&self) -> Outcome<Counters> {
        let name = Path::new(&self.device).file_name().ok_or("no device")?;
        let path = Path::new("/sys/block").join(name).join("stat");
        parse(&fs::read_to_string(path)?)
    }

    /// Waits until the device had nothing to do for a second.
    pub fn wait_until_quiet(&self) -> Outcome {
        rustix::fs::sync();
        let deadline = Instant::now() + Duration::from_secs(QUIET_SECONDS);
        let mut before = self.counters()?;
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.counters()?;
            if now == before {
                return Ok(());
            }
            before = now;
        }
        Err(format!("the idle server keeps {} busy", self.device).into())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Best effort: whatever of this was never made cannot be undone.
        drop(capture(Command::new("umount").arg(self.mount_point())));
        drop(capture(
            Command::new("losetup").args(["--detach", &self.device]),
        ));
    }
}

impl Counters {
    /// Difference between `earlier` and these counters.
    pub fn since(self, earlier: Counters) -> Counters {
        Counters {
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            flushes: self.flushes - earlier.flushes,
        }
    }
}

/// Fields as the kernel's Documentation/block/stat.rst lists them.
fn parse(stat: &str) -> Outcome<Counters> {
    let fields: Vec<u64> = stat
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let at = |index: usize| fields.get(index).copied().ok_or("flushes need Linux 5.5");
    Ok(Counters {
        writes: at(4)?,
        written_bytes: at(6)? * SECTOR_BYTES,
        flushes: at(15)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read() {
        let stat = " 1 2 3 4 50 6 70 8 9 10 11 12 13 14 15 160 17\n";
        let expected = Counters {
            writes: 50,
            written_bytes: 70 * 512,
            flushes: 160,
        };
        assert_eq!(parse(stat).unwrap(), expected);
        assert!(parse("1 2 3").is_err());
    }
}
