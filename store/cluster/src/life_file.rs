//! The file `LIFE`, which says whether a data directory may lack the last entries that its
//! member has acknowledged.
//!
//! If there is no file, entries were flushed before they were acknowledged, and the directory
//! is whole. A member that acknowledges entries from the page cache writes the file at each
//! start, before its first message. Any other member removes it once it is whole.

mod format;

use std::io;
use std::path::Path;

use environment::Disk;

use crate::member_file::{read, replace};

const FILE: &str = "LIFE";
const PARTIAL: &str = "LIFE.partial";

/// What the file says of the life that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LifeFile {
    /// It acknowledged entries that a loss of power may take.
    pub cached: bool,
    /// It had all entries that it and the lives before had acknowledged.
    pub whole: bool,
    /// Identifies the start of the kernel under which it ran, if that is known.
    pub boot: Option<String>,
}

impl LifeFile {
    /// Reads the file; `None` if there is none, `Some(None)` if it is damaged.
    pub fn find(disk: &dyn Disk, directory: &Path) -> io::Result<Option<Option<LifeFile>>> {
        let file = directory.join(FILE);
        match read(disk, &file) {
            Ok(Ok(text)) => Ok(Some(format::decode(&text))),
            Ok(Err(_)) => Ok(Some(None)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file; it is on stable storage on return. The caller must have locked the
    /// directory.
    pub fn keep(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        replace(disk, directory, (PARTIAL, FILE), &format::encode(self))
    }

    /// Removes the file; the removal is on stable storage on return.
    pub fn remove(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        match disk.remove(&directory.join(FILE)) {
            Ok(()) => disk.sync_directory(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use environment::OpenMode;
    use environment::simulated::SimulatedDisk;

    use super::*;

    pub(super) fn life() -> LifeFile {
        LifeFile {
            cached: true,
            whole: false,
            boot: Some("5f0c-1".into()),
        }
    }

    #[test]
    fn a_written_file_is_found_until_it_is_removed() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), None);
        life().keep(&disk, path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(Some(life())));
        let unknown = LifeFile {
            boot: None,
            ..life()
        };
        unknown.keep(&disk, path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(Some(unknown)));
        LifeFile::remove(&disk, path).unwrap();
        LifeFile::remove(&disk, path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), None);
    }

    #[test]
    fn a_damaged_file_is_found_and_not_trusted() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        let file = disk.open(&path.join(FILE), OpenMode::CreateNew).unwrap();
        file.write_at(&[b"\xffrubbish"], 0).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(None));
    }
}
