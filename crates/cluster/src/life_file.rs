//! Whether a data directory may lack the end of what its member has acknowledged:
//! its file `LIFE`.
//!
//! Without the file entries were flushed before they were acknowledged, and the
//! directory is whole. So it is written by members whose entries are only cached,
//! at each start before anything leaves, and removed by the others once they are
//! whole.

mod format;

use std::io;
use std::path::Path;

use environment::Disk;

use crate::member_file::{read, replace};

const FILE: &str = "LIFE";
const PARTIAL: &str = "LIFE.partial";

/// What is known of the life that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LifeFile {
    /// It acknowledged what a loss of power may take.
    pub cached: bool,
    /// It had all that it and the lives before had acknowledged.
    pub whole: bool,
    /// The kernel that it ran under, if that is known.
    pub boot: Option<String>,
}

impl LifeFile {
    /// What the directory says. `Some(None)`: something that cannot be trusted.
    pub fn find(disk: &dyn Disk, directory: &Path) -> io::Result<Option<Option<LifeFile>>> {
        let file = directory.join(FILE);
        match read(disk, &file) {
            Ok(Ok(text)) => Ok(Some(format::decode(&text))),
            Ok(Err(_)) => Ok(Some(None)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file; on stable storage on return. The caller has the
    /// directory to itself.
    pub fn keep(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        replace(disk, directory, (PARTIAL, FILE), &format::encode(self))
    }

    /// Removes the file, for good on return.
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
    fn what_is_kept_is_found_until_it_is_removed() {
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
    fn a_file_of_rubbish_is_there_and_not_trusted() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        let file = disk.open(&path.join(FILE), OpenMode::CreateNew).unwrap();
        file.write_at(&[b"\xffrubbish"], 0).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(None));
    }
}
