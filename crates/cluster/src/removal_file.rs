//! That the cluster has let a data directory's member go: its file `REMOVED`.
//!
//! A member that was away while it was removed hears of it at another's door, and
//! its log will never say so. Ids never return, so what is noted once stays true.

mod format;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::Disk;

use crate::Error;
use crate::member_file::{read, replace};

const FILE: &str = "REMOVED";
const PARTIAL: &str = "REMOVED.partial";

/// Refuses to go on with a member that the directory calls removed.
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
            "{} {what}: whether this member was removed from its cluster is not certain; move \
             the file away to have the other members asked again",
            file.display()
        ))),
        Err(error) => Err(about(&file, &error)),
    }
}

/// The member that was removed; `None`: none was.
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

/// Where a member's removal is noted.
#[derive(Debug)]
pub(crate) struct RemovalFile {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl RemovalFile {
    /// Of a directory that the caller has to itself.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path) -> RemovalFile {
        RemovalFile {
            disk,
            directory: directory.to_path_buf(),
        }
    }

    /// From now on the member does not start; on stable storage on return.
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
    fn a_removal_survives_a_loss_of_power_and_is_the_member_s_own() {
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
    fn a_file_that_cannot_be_trusted_is_refused_by_name() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        let file = disk.open(&path.join(FILE), OpenMode::CreateNew).unwrap();
        file.write_at(&[b"inkstone"], 0).unwrap();
        let error = refuse_removed(&disk, path, 7).unwrap_err().to_string();
        assert!(error.contains("/data/REMOVED does not match"), "{error}");
    }
}
