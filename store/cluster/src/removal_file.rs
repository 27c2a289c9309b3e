//! The file `REMOVED`, which says that a data directory's member was removed from its cluster.
//!
//! A member that was down while it was removed learns of it when another member refuses its
//! connection, and its log will never contain the removal. Ids are never used again, so the
//! file stays true.

mod format;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::Disk;

use crate::Error;
use crate::member_file::{read, replace};

const FILE: &str = "REMOVED";
const PARTIAL: &str = "REMOVED.partial";

/// Fails if the directory says that this member was removed.
pub(crate) fn refuse_removed(
    disk: &dyn Disk,
    directory: &Path,
    member_id: u64,
) -> Result<(), Error> {
    let file = directory.join(FILE);
    match find(disk, &file) {
        Ok(Some(Ok(member))) if member == member_id => Err(Error::Removed { member }),
        Ok(None | Some(Ok(_))) => Ok(()),
        Ok(Some(Err(what))) => Err(Error::Storage(format!(
            "{} {what}: it is uncertain whether this member was removed from its cluster; move \
             the file away, and the member asks the other members again",
            file.display()
        ))),
        Err(error) => Err(about(&file, &error)),
    }
}

/// The removed member in the file; `None` if there is no file.
fn find(disk: &dyn Disk, file: &Path) -> io::Result<Option<Result<u64, &'static str>>> {
    match read(disk, file) {
        Ok(text) => Ok(Some(text.and_then(|text| format::decode(&text)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn about(file: &Path, error: &io::Error) -> Error {
    Error::Storage(format!("{}: {error}", file.display()))
}

/// Writes the file `REMOVED` of a directory.
#[derive(Debug)]
pub(crate) struct RemovalFile {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl RemovalFile {
    /// For a directory that the caller has locked.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path) -> RemovalFile {
        RemovalFile {
            disk,
            directory: directory.to_path_buf(),
        }
    }

    /// Writes the file, after which the member does not start any more. It is on stable storage
    /// on return.
    pub fn keep(&self, member_id: u64) -> Result<(), Error> {
        let text = format::encode(member_id);
        replace(&*self.disk, &self.directory, (PARTIAL, FILE), &text)
            .map_err(|error| about(&self.directory.join(FILE), &error))
    }
}

#[cfg(test)]
mod tests {
    use environment::OpenMode;
    use environment::simulated::{Restart, SimulatedDisk};

    use super::*;

    #[test]
    fn a_removal_survives_a_loss_of_power_and_holds_for_its_member_only() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        refuse_removed(&disk, path, 7).unwrap();
        let file = RemovalFile::new(Arc::new(disk.clone()), path);
        file.keep(7).unwrap();
        file.keep(7).unwrap();
        disk.crash();
        let disk = disk.restart(Restart::nothing_kept());
        let refused = refuse_removed(&disk, path, 7).unwrap_err();
        assert!(matches!(refused, Error::Removed { member: 7 }), "{refused}");
        refuse_removed(&disk, path, 8).unwrap();
    }

    #[test]
    fn a_damaged_file_is_refused_and_named() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        let file = disk.open(&path.join(FILE), OpenMode::CreateNew).unwrap();
        file.write_at(&[b"inkstone"], 0).unwrap();
        let error = refuse_removed(&disk, path, 7).unwrap_err().to_string();
        assert!(error.contains("/data/REMOVED does not match"), "{error}");
    }
}
