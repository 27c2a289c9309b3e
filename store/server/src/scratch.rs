//! Directories that are of use for a while alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use environment::Disk;
use environment::real::RealDisk;

/// A directory that is removed with this.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Takes the path for a directory that is going to be made. What an earlier process has left there
    /// is removed.
    pub fn make(path: &Path) -> io::Result<Scratch> {
        remove_left_over(path)?;
        Ok(Scratch(path.to_owned()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next process that takes the path tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes a directory that a process which was killed has left. Fails if a process holds its lock.
pub(crate) fn remove_left_over(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    drop(RealDisk.lock_directory(path)?);
    fs::remove_dir_all(path)
}
