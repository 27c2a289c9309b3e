//! Temporary files beside a target: only this user can read them, and they are removed when dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

const BUFFER_BYTES: usize = 1 << 20;

/// A file that is being written.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    output: BufWriter<File>,
}

impl Scratch {
    /// Makes a file with the name of the target, the process and `part`.
    pub fn create(target: &Path, part: &str) -> Result<Scratch, Error> {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}.{part}", std::process::id()));
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        // It has the hashes of passwords.
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path);
        let file = file.map_err(|error| Error::io(&path, error))?;
        let output = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Scratch { path, output })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its output.
    pub fn output(&mut self) -> &mut BufWriter<File> {
        &mut self.output
    }

    /// Writes bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.output.write_all(bytes);
        written.map_err(|error| Error::io(&self.path, error))
    }

    /// Makes what was written readable at its path.
    pub fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.output.flush();
        flushed.map_err(|error| Error::io(&self.path, error))
    }

    /// Gives the file the name of the target, once it is on stable storage.
    #[expect(clippy::disallowed_methods, reason = "a file that an operator names")]
    pub fn complete(mut self, target: &Path) -> Result<(), Error> {
        self.flush()?;
        let io = |error| Error::io(target, error);
        self.output.get_ref().sync_all().map_err(io)?;
        fs::rename(&self.path, target).map_err(io)?;
        let folder = target.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(io)?;
        folder.sync_all().map_err(io)
    }
}

impl Drop for Scratch {
    #[expect(clippy::disallowed_methods, reason = "a file of this process")]
    fn drop(&mut self) {
        // After `complete` there is none; a failure that is reported is the one before.
        let _ = fs::remove_file(&self.path);
    }
}
