//! Resources of a process at one moment, from `/proc`.

use std::{fs::Metadata, os::unix::fs::MetadataExt, path::Path};

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
    /// Blocks that the directory occupies.
    pub data_bytes: u64,
    pub files_on_disk: u64,
}

/// Open file descriptors by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Below the directory.
    pub data: u64,
    /// Removed files that still take space.
    pub removed: u64,
    /// Sockets, epoll, and the like.
    pub other: u64,
}

impl Files {
    pub fn total(&self) -> u64 {
        self.data + self.removed + self.other
    }

    fn of(process: u32, directory: &Path) -> Outcome<Files> {
        let mut files = Files::default();
        for entry in std::fs::read_dir(format!("/proc/{process}/fd"))? {
            // One that was closed since is not open.
            let Ok(target) = std::fs::read_link(entry?.path()) else {
                continue;
            };
            let text = target.to_string_lossy();
            match (target.starts_with(directory), text.ends_with(" (deleted)")) {
                (true, true) => files.removed += 1,
                (true, false) => files.data += 1,
                (false, _) => files.other += 1,
            }
        }
        Ok(files)
    }
}

impl Sample {
    /// Looks at a process that keeps its files in `directory`.
    pub fn of(process: u32, directory: &Path) -> Outcome<Sample> {
        /// Unit of `st_blocks`, whatever the file system's own is.
        const BLOCK_BYTES: u64 = 512;
        let mut on_disk = Vec::new();
        walk(directory, &mut on_disk)?;
        let blocks: u64 = on_disk.iter().map(MetadataExt::blocks).sum();
        Ok(Sample {
            resident_kib: readings::resident_bytes(process)? >> 10,
            threads: readings::threads(process)?,
            files: Files::of(process, directory)?,
            processor_seconds: readings::processor_seconds(process)?,
            data_bytes: blocks * BLOCK_BYTES,
            files_on_disk: on_disk.len() as u64,
        })
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = self.resident_kib as f64 / 1024.0;
        let (threads, files, on_disk) = (self.threads, self.files, self.files_on_disk);
        write!(
            f,
            "{threads} threads, {files:?}, {mib:.1} MiB, {on_disk} files on disk"
        )
    }
}

/// Finds the files below `directory`; those that are removed in the meantime are skipped.
fn walk(directory: &Path, found: &mut Vec<Metadata>) -> Outcome {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => walk(&entry.path(), found)?,
            Ok(metadata) => found.push(metadata),
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
        let sample = || Sample::of(std::process::id(), directory.path()).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let first = sample();
        assert_eq!((first.files.data, first.files.removed), (1, 0));
        assert!(first.resident_kib > 0 && first.threads > 0);
        assert_eq!(first.files_on_disk, 1);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(sample().files.removed, 1);
        drop(file);
        assert_eq!(sample().files_on_disk, 0);
    }
}
