//! The directory of one run: a fresh one, or one on a new file system on a loop device. Only
//! the run uses that device, so its counters are exact.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::error::{CommandFailed, Error};
use super::leftovers;
use crate::accounting::device_of;
use crate::record::BlockDevice;
use crate::workload::ByteCount;

/// File systems that can be made for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 with its journal and default settings.
    Ext4,
    /// XFS with default settings.
    Xfs,
}

/// A file system that is made for each run, written as `ext4:2G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopFs {
    pub file_system: FileSystem,
    /// Size of the image. The image is sparse: it occupies only what is written.
    pub bytes: u64,
    /// Whether the device reads and writes its image past the page cache, which would hold the
    /// data a second time, outside of a limit of memory.
    pub is_direct: bool,
}

const BYTES_MIN: u64 = 64 << 20;

impl LoopFs {
    /// The same for runs with or without a limit of memory.
    pub fn for_memory(self, limit: Option<ByteCount>) -> LoopFs {
        LoopFs {
            is_direct: limit.is_some(),
            ..self
        }
    }

    /// Fails where this user may not make and mount devices.
    pub fn check_rights(self) -> Result<(), Error> {
        match rustix::process::geteuid().is_root() {
            true => Ok(()),
            false => Err(Error::LoopNeedsRoot),
        }
    }
}

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
        let count: u64 = digits.parse().map_err(|_| mistake())?;
        let bytes = count.checked_mul(unit).filter(|bytes| *bytes >= BYTES_MIN);
        Ok(LoopFs {
            file_system,
            bytes: bytes.ok_or_else(mistake)?,
            is_direct: false,
        })
    }
}

/// Directory of one run. Dropping it removes it and its file system.
#[derive(Debug)]
pub struct RunDirectory {
    // Must be unmounted before the folder is removed.
    mounted: Option<Mounted>,
    folder: TempDir,
    /// Locked as long as this process owns the folder: see [`leftovers`].
    _owned: File,
    name: String,
}

/// Time limit for removing. A process that was just killed may hold a file system, or add a
/// file to a folder, for a moment longer.
const LEAVING: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const LOOK: Duration = Duration::from_millis(20);
const IMAGE: &str = "image";
const MOUNT_POINT: &str = "mounted";

#[derive(Debug)]
struct Mounted {
    /// Path of the loop device, such as `/dev/loop3`.
    device: String,
    mount_point: PathBuf,
}

impl RunDirectory {
    /// Creates a directory below `parent` with a name of `letters` characters.
    pub fn make(
        parent: &Path,
        loop_fs: Option<LoopFs>,
        letters: usize,
    ) -> Result<RunDirectory, Error> {
        let context = |error| Error::Directory {
            folder: parent.to_owned(),
            error,
        };
        std::fs::create_dir_all(parent).map_err(context)?;
        let folder = tempfile::Builder::new()
            .prefix(leftovers::PREFIX)
            .tempdir_in(parent)
            .map_err(context)?;
        let owned = leftovers::own(folder.path()).map_err(context)?;
        let mounted = loop_fs
            .map(|loop_fs| Mounted::make(folder.path(), loop_fs))
            .transpose()?;
        let directory = RunDirectory {
            mounted,
            folder,
            _owned: owned,
            name: "d".repeat(letters.max(1)),
        };
        std::fs::create_dir(directory.path()).map_err(context)?;
        Ok(directory)
    }

    /// Path for the run's data; the directory is empty at first.
    pub fn path(&self) -> PathBuf {
        let root = match &self.mounted {
            Some(mounted) => &mounted.mount_point,
            None => self.folder.path(),
        };
        root.join(&self.name)
    }

    /// The device of the data; `None` where the file system has none.
    pub fn device(&self) -> Option<BlockDevice> {
        device_of(&self.path(), self.mounted.is_some())
    }

    /// Unmounts and removes the folder of a run after its lab process has ended; best effort.
    pub fn undo(folder: &Path) {
        drop(Mounted::find_in(folder));
        remove(folder);
    }
}

impl Mounted {
    /// The file system that an ended lab process has left mounted in a run's folder.
    fn find_in(folder: &Path) -> Option<Mounted> {
        let image = folder.join(IMAGE);
        if !image.exists() {
            return None;
        }
        let mut losetup = Command::new("losetup");
        losetup.args(["--noheadings", "--output", "NAME", "--associated"]);
        let names = capture(losetup.arg(&image)).ok()?;
        Some(Mounted {
            device: names.split_whitespace().next()?.to_owned(),
            mount_point: folder.join(MOUNT_POINT),
        })
    }

    fn make(folder: &Path, loop_fs: LoopFs) -> Result<Mounted, Error> {
        loop_fs.check_rights()?;
        let image = folder.join(IMAGE);
        let sized = File::create(&image).and_then(|file| file.set_len(loop_fs.bytes));
        sized.map_err(|error| Error::Image {
            bytes: loop_fs.bytes,
            folder: folder.to_owned(),
            error,
        })?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]).arg(&image);
        let device = match loop_fs.is_direct {
            true => capture(losetup.arg("--direct-io=on")).map_err(Error::LoopDirect)?,
            false => capture(&mut losetup)?,
        };
        let mounted = Mounted {
            device,
            mount_point: folder.join(MOUNT_POINT),
        };
        match loop_fs.file_system {
            FileSystem::Ext4 => {
                // Without lazy initialization the kernel writes nothing of its own during
                // the run.
                let now = "lazy_itable_init=0,lazy_journal_init=0";
                capture(Command::new("mkfs.ext4").args(["-q", "-E", now, &mounted.device]))?;
            }
            FileSystem::Xfs => {
                let made = capture(Command::new("mkfs.xfs").args(["-q", &mounted.device]));
                made.map_err(Error::Xfs)?;
            }
        }
        let mount_point = std::fs::create_dir(&mounted.mount_point);
        mount_point.map_err(|error| Error::Directory {
            folder: folder.to_owned(),
            error,
        })?;
        let mut mount = Command::new("mount");
        capture(mount.arg(&mounted.device).arg(&mounted.mount_point))?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Best effort: a part that was never made cannot be undone.
        let mounts = || procfs::mounts().into_iter().flatten();
        let is_mounted = || mounts().any(|it| self.mount_point == Path::new(&it.fs_file));
        let unmount = |flags: &[&str]| {
            drop(capture(
                Command::new("umount").args(flags).arg(&self.mount_point),
            ));
        };
        until(|| {
            unmount(&[]);
            !is_mounted()
        });
        if is_mounted() {
            unmount(&["--lazy"]);
        }
        drop(capture(
            Command::new("losetup").args(["--detach", &self.device]),
        ));
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        drop(self.mounted.take());
        remove(self.folder.path());
    }
}

fn remove(folder: &Path) {
    until(|| std::fs::remove_dir_all(folder).is_ok() || !folder.exists());
}

/// Tries until `done` returns true, at most for [`LEAVING`].
fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LEAVING;
    while !done() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

/// Runs a program to its end and returns its standard output, without blanks around it.
pub fn capture(command: &mut Command) -> Result<String, CommandFailed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match command.output() {
        Err(error) => Err(CommandFailed::NotStarted(name, error)),
        Ok(output) if output.status.success() => Ok(text(&output.stdout)),
        Ok(output) => Err(CommandFailed::Ended {
            name,
            status: output.status,
            errors: text(&output.stderr),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_invalid_text_is_refused() {
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
    fn a_run_directory_is_empty_and_is_removed_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let directory = RunDirectory::make(parent.path(), None, 7).unwrap();
        let path = directory.path();
        assert!(path.ends_with("ddddddd"));
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        drop(directory);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
