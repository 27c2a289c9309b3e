//! Directories that are of use for a while alone.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A new directory that is removed with this.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory, which must not exist.
    pub fn make(path: &Path) -> io::Result<Scratch> {
        // It has the hashes of passwords.
        fs::DirBuilder::new().mode(0o700).create(path)?;
        Ok(Scratch(path.to_owned()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure leaves a directory with a name that says what it was.
        let _ = fs::remove_dir_all(&self.0);
    }
}
