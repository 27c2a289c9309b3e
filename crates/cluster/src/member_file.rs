//! Who a data directory belongs to: its file `MEMBER`.
//!
//! The ids of a member and of its cluster are computed once, when the directory
//! begins. After that the directory knows: another token or another peer URL
//! must not make another member of the same data, because a member that votes
//! under a second name breaks promises that were made under the first. So the
//! file is written before the first answer leaves, by whoever has the
//! directory's lock.

mod format;

use std::io;
use std::path::{Path, PathBuf};

use environment::{Disk, OpenMode};

const FILE: &str = "MEMBER";
const PARTIAL: &str = "MEMBER.partial";
/// A larger file is surely none of ours.
const BYTES_MAX: u64 = 1 << 20;

/// What stays the same as long as the data does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFile {
    /// The member's id.
    pub member: u64,
    /// The cluster's id.
    pub cluster: u64,
    /// Where others reached the member when the directory began.
    pub peer_urls: Vec<String>,
}

/// A directory's member cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum MemberFileError {
    /// The file is there and makes no sense.
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

/// Besides the file `MEMBER` and the lock there is something. Before its first
/// start a directory is empty; afterwards, without data, it has lost them.
pub fn holds_data(disk: &dyn Disk, directory: &Path) -> bool {
    // What cannot be listed, or is not there yet, the engine judges.
    let names = disk.list(directory).unwrap_or_default();
    let ends = [".log", ".checkpoint"];
    names
        .iter()
        .any(|name| ends.iter().any(|end| name.ends_with(end)))
}

impl MemberFile {
    /// What the directory says; `None` before its first start.
    pub fn find(disk: &dyn Disk, directory: &Path) -> Result<Option<MemberFile>, MemberFileError> {
        let file = directory.join(FILE);
        let unusable = |what| MemberFileError::Unusable {
            file: file.clone(),
            what,
        };
        let text = match read(disk, &file) {
            Ok(text) => text.map_err(|what| unusable(what.to_owned()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // A file in the directory's place: the engine says so.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        format::decode(&text).map(Some).map_err(unusable)
    }

    /// Writes the file; on stable storage on return. The caller has the
    /// directory to itself.
    pub fn keep(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        replace(disk, directory, (PARTIAL, FILE), &format::encode(self))
    }
}

/// Puts a text in a file's place, by way of another name; on stable storage on
/// return.
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

/// The file's text, or why it has none.
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
    fn what_is_kept_is_found_also_over_the_remains_of_a_crash() {
        let disk = disk();
        let path = Path::new(DIRECTORY);
        assert_eq!(MemberFile::find(&disk, path).unwrap(), None);
        disk.open(&path.join(PARTIAL), OpenMode::CreateNew).unwrap();
        let member = keep(&disk);
        assert_eq!(MemberFile::find(&disk, path).unwrap(), Some(member));
        assert_eq!(disk.list(path).unwrap(), [FILE]);
    }

    #[test]
    fn a_damaged_file_is_refused_by_name() {
        let disk = disk();
        keep(&disk);
        let path = Path::new(DIRECTORY).join(FILE);
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        for (damage, place, told) in [
            (&b"x"[..], 30, "checksum"),
            (b"\xff", 30, "UTF-8"),
            (b"0", BYTES_MAX, "1 MiB"),
        ] {
            file.write_at(&[damage], place).unwrap();
            let error = MemberFile::find(&disk, Path::new(DIRECTORY)).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("/data/MEMBER") && text.contains(told),
                "{text}"
            );
        }
    }
}
