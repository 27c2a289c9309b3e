//! The file `REMOVED`, see docs/formats/removed.md: the directory's member was removed from its
//! cluster.
//!
//! ```text
//!   inkstone removed 1
//!   member 8e9e05c52164694d
//!   sha1 ...
//! ```
//!
//! A member that was down while it was removed learns of it when another member refuses its
//! connection, and its log will never contain the removal. Ids are never used again, so the
//! file stays true.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::Disk;

use super::IdentityFile;
use crate::Error;

const FILE: IdentityFile = IdentityFile("REMOVED");

/// Fails if the directory says that this member was removed.
pub(crate) fn refuse_removed(
    disk: &dyn Disk,
    directory: &Path,
    member_id: u64,
) -> Result<(), Error> {
    let found = FILE.read(disk, directory);
    let Some(lines) = found.map_err(Error::file(FILE.path(directory)))? else {
        return Ok(());
    };
    match lines.and_then(|lines| decode(&lines).ok_or_else(|| "lacks its member".to_owned())) {
        Ok(member) if member == member_id => Err(Error::Removed { member }),
        Ok(_) => Ok(()),
        Err(what) => Err(Error::FileDamaged {
            file: FILE.path(directory),
            what: format!(
                "{what}: it is uncertain whether this member was removed from its cluster; move \
                 the file away, and the member asks the other members again"
            ),
        }),
    }
}

fn decode(lines: &str) -> Option<u64> {
    let digits = lines.strip_prefix("member ")?.trim_end();
    u64::from_str_radix(digits, 16).ok()
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
        let lines = format!("member {member_id:016x}\n");
        let written = FILE.write(&*self.disk, &self.directory, &lines);
        written.map_err(Error::file(FILE.path(&self.directory)))
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
        let file = FILE.path(path);
        let file = disk.open(&file, OpenMode::CreateNew).unwrap();
        for (text, expected) in [
            ("inkstone removed 1\n", "/data/REMOVED does not match"),
            (&FILE.seal("cluster 1\n"), "/data/REMOVED lacks its member"),
        ] {
            file.write_at(&[text.as_bytes()], 0).unwrap();
            let error = refuse_removed(&disk, path, 7).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
