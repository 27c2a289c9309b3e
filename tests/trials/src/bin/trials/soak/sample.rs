//! Resources of a process at one moment, from `/proc`.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use harness::readings;

use crate::process::Outcome;

/// A sample of the process and its directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub resident_kib: u64,
    pub threads: u64,
    pub files: Files,
    /// Processor time since the start of the process.
    pub processor_seconds: f64,
    /// Blocks that the data directory occupies.
    pub data_bytes: u64,
}

/// Open file descriptors by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Below the data directory.
    pub data: u64,
    /// Removed files that still take space.
    pub removed: u64,
    /// Sockets, epoll, and the like.
    pub other: u64,
}

/// What to look at.
#[derive(Clone, Debug)]
pub struct Subject {
    pub process: u32,
    pub data: PathBuf,
}

impl Files {
    pub fn total(&self) -> u64 {
        self.data + self.removed + self.other
    }
}

impl Subject {
    pub fn sample(&self) -> Outcome<Sample> {
        let folder = PathBuf::from(format!("/proc/{}", self.process));
        Ok(Sample {
            resident_kib: readings::resident_bytes(self.process)? >> 10,
            threads: readings::threads(self.process)?,
            files: self.files(&folder.join("fd"))?,
            processor_seconds: readings::processor_seconds(self.process)?,
            data_bytes: bytes_below(&self.data)?,
        })
    }

    /// How many files lie in the data directory.
    pub fn files_on_disk(&self) -> Outcome<u64> {
        let mut files = 0;
        walk(&self.data, &mut |_| files += 1)?;
        Ok(files)
    }

    fn files(&self, descriptors: &Path) -> Outcome<Files> {
        let mut files = Files::default();
        for entry in std::fs::read_dir(descriptors)? {
            // One that was closed since is not open.
            let Ok(target) = std::fs::read_link(entry?.path()) else {
                continue;
            };
            let text = target.to_string_lossy();
            match (target.starts_with(&self.data), text.ends_with(" (deleted)")) {
                (true, true) => files.removed += 1,
                (true, false) => files.data += 1,
                (false, _) => files.other += 1,
            }
        }
        Ok(files)
    }
}

fn bytes_below(directory: &Path) -> Outcome<u64> {
    /// Unit of `st_blocks`, whatever the file system's own is.
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    walk(directory, &mut |file| bytes += file.blocks() * BLOCK_BYTES)?;
    Ok(bytes)
}

/// Calls `visit` for each file below `directory`; files that are removed in the meantime are
/// skipped.
fn walk(directory: &Path, visit: &mut dyn FnMut(&std::fs::Metadata)) -> Outcome {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => walk(&entry.path(), visit)?,
            Ok(metadata) => visit(&metadata),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_with_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let subject = Subject {
            process: std::process::id(),
            data: directory.path().to_owned(),
        };
        let file = std::fs::File::create(&path).unwrap();
        let sample = subject.sample().unwrap();
        assert_eq!((sample.files.data, sample.files.removed), (1, 0));
        assert!(sample.resident_kib > 0 && sample.threads > 0);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(subject.sample().unwrap().files.removed, 1);
        drop(file);
        assert_eq!(subject.files_on_disk().unwrap(), 0);
    }
}
