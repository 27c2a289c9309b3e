//! The disk of the operating system.
//!
//! Each call is a system call or a few of them, and its error names the path. Nothing is cached
//! here except a descriptor of each locked directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};

use super::device_file::DeviceFile;
use super::file::CachedFile;
use super::lock::{held_directory, take_lock};
use super::open::open_with;
use crate::disk::{DirectoryLock, Disk, File, OpenMode, Space};
use crate::path_error::{on_path, on_paths};

/// The file systems of the machine, through rustix.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_directories(&self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> = Vec::new();
        for ancestor in path.ancestors().filter(|it| !it.as_os_str().is_empty()) {
            if ancestor.is_dir() {
                break;
            }
            missing.push(ancestor);
        }
        missing
            .iter()
            .rev()
            .try_for_each(|level| self.create_directory(level))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        match mode {
            OpenMode::ReadDevice => Ok(Arc::new(DeviceFile::open(path)?)),
            _ => Ok(Arc::new(CachedFile::open(path, mode)?)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert_eq!(
            from.parent(),
            to.parent(),
            "a rename stays in its directory"
        );
        rustix::fs::rename(from, to).map_err(|error| on_paths("rename", from, to, error.into()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        rustix::fs::unlink(path).map_err(|error| on_path("remove", path, error))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        list_files(directory).map_err(|error| on_path("list", directory, error))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        sync_directory(directory).map_err(|error| on_path("sync directory", directory, error))
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(take_lock(directory)?))
    }

    fn space(&self, directory: &Path) -> io::Result<Space> {
        let status = rustix::fs::statvfs(directory)
            .map_err(|error| on_path("ask for the free space of", directory, error))?;
        Ok(Space {
            available_bytes: status.f_bavail.saturating_mul(status.f_frsize),
            total_bytes: status.f_blocks.saturating_mul(status.f_frsize),
        })
    }
}

impl RealDisk {
    /// Creates one directory level and makes its name durable. Succeeds if another process
    /// creates it first.
    fn create_directory(self, path: &Path) -> io::Result<()> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(on_path("create directory", path, error)),
        }
        self.sync_directory(&parent_of(path))
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    if let Some(handle) = held_directory(directory) {
        return Ok(rustix::fs::fsync(handle)?);
    }
    let handle = open_with(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(rustix::fs::fsync(handle)?)
}

fn list_files(directory: &Path) -> io::Result<Vec<String>> {
    let handle = open_with(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&handle)? {
        let entry = entry?;
        if is_file(&handle, &entry)? {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Returns whether an entry is a regular file. Some file systems do not store the type in the
/// directory; then the file is asked.
fn is_file(
    directory: &rustix::fd::OwnedFd,
    entry: &rustix::fs::DirEntry,
) -> rustix::io::Result<bool> {
    if entry.file_type() != FileType::Unknown {
        return Ok(entry.file_type() == FileType::RegularFile);
    }
    let status = rustix::fs::statat(
        directory,
        entry.file_name(),
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )?;
    Ok(FileType::from_raw_mode(status.st_mode) == FileType::RegularFile)
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_path_buf(),
        None => path.to_path_buf(),
    }
}
