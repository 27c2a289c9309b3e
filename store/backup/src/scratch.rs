//! Temporary files beside a target: only this user can read them, and they are removed when dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use environment::randomness::Random;

use crate::Error;

const BUFFER_BYTES: usize = 1 << 20;

/// A file that is being written.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    output: BufWriter<File>,
}

impl Scratch {
    /// Makes a file with the name of the target, a random number and `part`. Other users may write to the folder
    /// of the target, so neither an existing file nor a link is opened, and the name cannot be guessed.
    pub fn create(target: &Path, part: &str) -> Result<Scratch, Error> {
        let mut name = target.as_os_str().to_owned();
        let random = Random::from_system();
        let mut random = random.map_err(|error| Error::io(target, error))?;
        name.push(format!(".{:016x}.{part}", random.next_u64()));
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        // It has the hashes of passwords.
        options.write(true).create_new(true).mode(0o600);
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn each_temporary_file_is_new_and_of_this_user_alone() {
        let folder = tempfile::tempdir().expect("a folder of the test");
        let target = folder.path().join("store.db");
        let files = [(); 2].map(|()| Scratch::create(&target, "db").expect("it can be made"));
        let facts = files.each_ref().map(|file| file.path().metadata());
        let facts = facts.map(|facts| facts.expect("it is there"));
        assert_ne!(facts[0].ino(), facts[1].ino());
        for facts in facts {
            assert_eq!(facts.permissions().mode() & 0o777, 0o600);
        }
        drop(files);
        let left = folder.path().read_dir().expect("it is a folder").count();
        assert_eq!(left, 0);
    }
}
