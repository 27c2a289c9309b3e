//! Where one run keeps its data: a fresh directory, or a whole file system on
//! a loop device, whose account is then the run's alone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::left;
use crate::accounting::device_of;
use crate::record::BlockDevice;

/// File systems that can be made for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// With its journal, as it is made by default.
    Ext4,
    /// As it is made by default.
    Xfs,
}

/// A file system to be made for each run: `ext4:2G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopFs {
    /// Which.
    pub file_system: FileSystem,
    /// Of the image, which only takes what is written.
    pub bytes: u64,
}

const BYTES_MIN: u64 = 64 << 20;

impl FromStr for LoopFs {
    type Err = String;

    fn from_str(text: &str) -> Result<LoopFs, String> {
        let mistake = || format!("`{text}`: write `ext4:2G` or `xfs:512M`, at least 64M");
        let (name, size) = text.split_once(':').ok_or_else(mistake)?;
        let file_system = match name {
            "ext4" => FileSystem::Ext4,
            "xfs" => FileSystem::Xfs,
            _ => return Err(mistake()),
        };
        let digits = size.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = match &size[digits.len()..] {
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => return Err(mistake()),
        };
        let bytes = digits
            .parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(unit));
        match bytes {
            Some(bytes) if bytes >= BYTES_MIN => Ok(LoopFs { file_system, bytes }),
            _ => Err(mistake()),
        }
    }
}

/// Exists for one run; gone when dropped.
#[derive(Debug)]
pub struct Ground {
    // Unmounted before its folder is removed.
    mounted: Option<Mounted>,
    folder: TempDir,
    /// Locked while the run is this process's.
    _owned: File,
    letters: String,
}

/// Whoever was killed a moment ago may hold a file system, or add a file to a
/// folder, a moment longer.
const LEAVING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
const IMAGE: &str = "image";
const MOUNT_POINT: &str = "mounted";

#[derive(Debug)]
struct Mounted {
    /// As in `/dev/loop3`.
    device: String,
    mount_point: PathBuf,
}

impl Ground {
    /// Below `parent`, in a folder whose name has so many letters.
    pub fn make(parent: &Path, loop_fs: Option<LoopFs>, letters: usize) -> Result<Ground, String> {
        let context = |error: std::io::Error| {
            let shown = parent.display();
            format!("no data can be kept in {shown}: {error}; name another folder with --directory")
        };
        std::fs::create_dir_all(parent).map_err(context)?;
        let folder = tempfile::Builder::new()
            .prefix(left::PREFIX)
            .tempdir_in(parent)
            .map_err(context)?;
        let owned = left::own(folder.path()).map_err(context)?;
        let mounted = loop_fs
            .map(|loop_fs| Mounted::make(folder.path(), loop_fs))
            .transpose()?;
        let ground = Ground {
            mounted,
            folder,
            _owned: owned,
            letters: "d".repeat(letters.max(1)),
        };
        std::fs::create_dir(ground.directory()).map_err(context)?;
        Ok(ground)
    }

    /// For the run's data; empty at first.
    pub fn directory(&self) -> PathBuf {
        let root = match &self.mounted {
            Some(mounted) => &mounted.mount_point,
            None => self.folder.path(),
        };
        root.join(&self.letters)
    }

    /// What its data lies on.
    pub fn device(&self) -> Option<BlockDevice> {
        device_of(&self.directory(), self.mounted.is_some())
    }

    /// Removes the folder of a run whose lab is gone, and what lies mounted in it; best
    /// effort.
    pub fn undo(folder: &Path) {
        drop(Mounted::left(folder));
        remove(folder);
    }
}

impl Mounted {
    /// What a lab that is gone has attached and mounted in a folder of its.
    fn left(folder: &Path) -> Option<Mounted> {
        let image = folder.join(IMAGE);
        if !image.exists() {
            return None;
        }
        let attached = Command::new("losetup")
            .args(["--noheadings", "--output", "NAME", "--associated"])
            .arg(&image)
            .output();
        let said = String::from_utf8(attached.ok()?.stdout).ok()?;
        Some(Mounted {
            device: said.split_whitespace().next()?.to_owned(),
            mount_point: folder.join(MOUNT_POINT),
        })
    }

    fn make(folder: &Path, loop_fs: LoopFs) -> Result<Mounted, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("--loopfs makes a device and mounts it, which needs root".into());
        }
        let image = folder.join(IMAGE);
        let sized = File::create(&image).and_then(|file| file.set_len(loop_fs.bytes));
        sized.map_err(|error| {
            format!(
                "no image of {} bytes can be made in {}: {error}; write a smaller --loopfs or \
                 another --directory",
                loop_fs.bytes,
                folder.display()
            )
        })?;
        let device = capture(
            Command::new("losetup")
                .args(["--find", "--show"])
                .arg(&image),
        )?;
        let mounted = Mounted {
            device: device.trim().to_owned(),
            mount_point: folder.join(MOUNT_POINT),
        };
        match loop_fs.file_system {
            FileSystem::Ext4 => {
                // Nothing may be left for the kernel to write later on its own.
                let now = "lazy_itable_init=0,lazy_journal_init=0";
                capture(Command::new("mkfs.ext4").args(["-q", "-E", now, &mounted.device]))?;
            }
            FileSystem::Xfs => {
                let made = capture(Command::new("mkfs.xfs").args(["-q", &mounted.device]));
                made.map_err(|error| format!("{error}; install xfsprogs, or use ext4"))?;
            }
        }
        std::fs::create_dir(&mounted.mount_point).map_err(|error| error.to_string())?;
        capture(
            Command::new("mount")
                .arg(&mounted.device)
                .arg(&mounted.mount_point),
        )?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Best effort: whatever of this was never made cannot be undone.
        let is_mounted = || mounts().contains(&format!(" {} ", self.mount_point.display()));
        until(|| {
            drop(capture(Command::new("umount").arg(&self.mount_point)));
            !is_mounted()
        });
        if is_mounted() {
            drop(capture(
                Command::new("umount").arg("--lazy").arg(&self.mount_point),
            ));
        }
        drop(capture(
            Command::new("losetup").args(["--detach", &self.device]),
        ));
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(self.mounted.take());
        remove(self.folder.path());
    }
}

fn remove(folder: &Path) {
    until(|| std::fs::remove_dir_all(folder).is_ok() || !folder.exists());
}

/// Tries until it is done, but not for ever.
fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LEAVING;
    while !done() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mounts").unwrap_or_default()
}

/// Runs a program to its end and gives back what it printed.
pub fn capture(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{name} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_nonsense_is_refused() {
        let loop_fs: LoopFs = "ext4:2G".parse().unwrap();
        assert_eq!(loop_fs.bytes, 2 << 30);
        assert_eq!(
            "xfs:512M".parse::<LoopFs>().unwrap().file_system,
            FileSystem::Xfs
        );
        for text in ["ext4", "btrfs:2G", "ext4:2", "ext4:1M", "ext4:xG"] {
            assert!(text.parse::<LoopFs>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_ground_is_empty_and_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let ground = Ground::make(parent.path(), None, 7).unwrap();
        let directory = ground.directory();
        assert!(directory.ends_with("ddddddd"));
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        drop(ground);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
