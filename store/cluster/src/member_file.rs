//! The file `MEMBER`, which says to which member a data directory belongs.
//!
//! The ids of a member and of its cluster are computed once, at the first start of the
//! directory. From then on the file decides: another token or another peer URL must not
//! make another member of the same data, because a member that votes under a second id
//! breaks promises that were made under the first. So the process that holds the
//! directory's lock writes the file before its first answer.

mod format;

use std::io;
use std::path::{Path, PathBuf};

use environment::{Disk, OpenMode};
use revisions::identity;

const FILE: &str = "MEMBER";
const PARTIAL: &str = "MEMBER.partial";
/// A larger file is not a file of this program.
const BYTES_MAX: u64 = 1 << 20;

/// The identity of a data directory, which never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFile {
    /// The member's id.
    pub member: u64,
    /// The cluster's id.
    pub cluster: u64,
    /// The member's peer URLs at the first start of the directory.
    pub peer_urls: Vec<String>,
}

/// Why the member of a directory cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum MemberFileError {
    /// The file exists and is damaged.
    #[error("{} {what}; put a copy of it back", file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// Whether the directory has a log or a checkpoint. A directory that was started once and
/// has none has lost its data.
pub fn holds_data(disk: &dyn Disk, directory: &Path) -> bool {
    // The engine reports a directory that cannot be listed, and creates a missing one.
    let names = disk.list(directory).unwrap_or_default();
    let ends = [".log", ".checkpoint"];
    names
        .iter()
        .any(|name| ends.iter().any(|end| name.ends_with(end)))
}

impl MemberFile {
    /// Reads the file; `None` before the directory's first start.
    pub fn find(disk: &dyn Disk, directory: &Path) -> Result<Option<MemberFile>, MemberFileError> {
        let file = directory.join(FILE);
        let unusable = |what| MemberFileError::Unusable {
            file: file.clone(),
            what,
        };
        let text = match read(disk, &file) {
            Ok(text) => text.map_err(|what| unusable(what.to_owned()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The engine reports a file in the place of the directory.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        format::decode(&text).map(Some).map_err(unusable)
    }

    /// Whether the cluster began with this member alone: the cluster's id is computed from its
    /// founders.
    pub fn began_alone(&self) -> bool {
        self.cluster == identity::cluster_id(&[self.member])
    }

    /// Writes the file; it is on stable storage on return. The caller must have locked the
    /// directory.
    pub fn keep(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        replace(disk, directory, (PARTIAL, FILE), &format::encode(self))
    }
}

/// Replaces a file by a new text: writes the text to the file `partial` and renames it to
/// `name`. The text is on stable storage on return.
pub(crate) fn replace(
    disk: &dyn Disk,
    directory: &Path,
    (partial, name): (&str, &str),
    text: &str,
) -> io::Result<()> {
    let partial = directory.join(partial);
    match disk.remove(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(&partial, OpenMode::CreateNew)?;
    file.write_at(&[text.as_bytes()], 0)?;
    file.sync_data()?;
    disk.rename(&partial, &directory.join(name))?;
    disk.sync_directory(directory)
}

/// Reads a file's text; an inner `Err` says why it is not a text of this program.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Result<String, &'static str>> {
    let file = disk.open(path, OpenMode::Read)?;
    let size = file.size()?;
    if size > BYTES_MAX {
        return Ok(Err("is larger than 1 MiB"));
    }
    let mut bytes = vec![0; size as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(String::from_utf8(bytes).map_err(|_| "is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedDisk;

    use super::*;

    const DIRECTORY: &str = "/data";

    fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new(1);
        disk.create_directories(Path::new(DIRECTORY)).unwrap();
        disk
    }

    fn keep(disk: &SimulatedDisk) -> MemberFile {
        let member = MemberFile {
            member: 7,
            cluster: 9,
            peer_urls: vec!["http://localhost:2380".to_owned()],
        };
        member.keep(disk, Path::new(DIRECTORY)).unwrap();
        member
    }

    #[test]
    fn a_written_file_is_found_also_after_a_crash_left_a_partial_one() {
        let disk = disk();
        let path = Path::new(DIRECTORY);
        assert_eq!(MemberFile::find(&disk, path).unwrap(), None);
        disk.open(&path.join(PARTIAL), OpenMode::CreateNew).unwrap();
        let member = keep(&disk);
        assert_eq!(MemberFile::find(&disk, path).unwrap(), Some(member));
        assert_eq!(disk.list(path).unwrap(), [FILE]);
    }

    #[test]
    fn a_damaged_file_is_refused_and_named() {
        let disk = disk();
        keep(&disk);
        let path = Path::new(DIRECTORY).join(FILE);
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        for (damage, place, expected) in [
            (&b"x"[..], 30, "checksum"),
            (b"\xff", 30, "UTF-8"),
            (b"0", BYTES_MAX, "1 MiB"),
        ] {
            file.write_at(&[damage], place).unwrap();
            let error = MemberFile::find(&disk, Path::new(DIRECTORY)).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("/data/MEMBER") && text.contains(expected),
                "{text}"
            );
        }
    }
}
