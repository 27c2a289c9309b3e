//! The file `MEMBER`, see docs/formats/member.md: to which member a data directory belongs.
//!
//! ```text
//!   inkstone member 1
//!   member 8e9e05c52164694d
//!   cluster cdf818194e3a8c32
//!   peer http://localhost:2380
//!   sha1 ...
//! ```
//!
//! The ids of a member and of its cluster are computed once, at the first start of the
//! directory. From then on the file decides: another token or another peer URL must not
//! make another member of the same data, because a member that votes under a second id
//! breaks promises that were made under the first. So the process that holds the
//! directory's lock writes the file before its first answer.

use std::io;
use std::path::{Path, PathBuf};

use environment::Disk;
use revisions::identity;

use super::IdentityFile;

const FILE: IdentityFile = IdentityFile("MEMBER");

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
        let Some(lines) = FILE.read(disk, directory)? else {
            return Ok(None);
        };
        let decode = |lines: String| MemberFile::decode(&lines).ok_or("lacks a field".to_owned());
        match lines.and_then(decode) {
            Ok(member) => Ok(Some(member)),
            Err(what) => Err(MemberFileError::Unusable {
                file: FILE.path(directory),
                what,
            }),
        }
    }

    /// Whether the cluster began with this member alone: the cluster's id is computed from its
    /// founders.
    pub fn began_alone(&self) -> bool {
        self.cluster == identity::cluster_id(&[self.member])
    }

    /// Writes the file; it is on stable storage on return. The caller must have locked the
    /// directory.
    pub fn keep(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        FILE.write(disk, directory, &self.encode())
    }

    fn encode(&self) -> String {
        let (member, cluster) = (self.member, self.cluster);
        let mut lines = format!("member {member:016x}\ncluster {cluster:016x}\n");
        for url in &self.peer_urls {
            lines += &format!("peer {url}\n");
        }
        lines
    }

    fn decode(lines: &str) -> Option<MemberFile> {
        let mut lines = lines.lines();
        let mut id = |name| u64::from_str_radix(lines.next()?.strip_prefix(name)?, 16).ok();
        let (member, cluster) = (id("member ")?, id("cluster ")?);
        let peer_urls = lines.map(|line| line.strip_prefix("peer ").map(str::to_owned));
        Some(MemberFile {
            member,
            cluster,
            peer_urls: peer_urls.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use environment::OpenMode;
    use environment::simulated::SimulatedDisk;

    use super::super::BYTES_MAX;
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
            peer_urls: vec!["http://a:1".into(), "http://b:2".into()],
        };
        member.keep(disk, Path::new(DIRECTORY)).unwrap();
        member
    }

    #[test]
    fn a_written_file_is_found_also_after_a_crash_left_a_partial_one() {
        let disk = disk();
        let path = Path::new(DIRECTORY);
        assert_eq!(MemberFile::find(&disk, path).unwrap(), None);
        let partial = path.join("MEMBER.partial");
        disk.open(&partial, OpenMode::CreateNew).unwrap();
        let member = keep(&disk);
        assert_eq!(MemberFile::find(&disk, path).unwrap(), Some(member));
        assert_eq!(disk.list(path).unwrap(), [FILE.0]);
    }

    #[test]
    fn a_damaged_file_is_refused_and_named() {
        let disk = disk();
        keep(&disk);
        let path = FILE.path(Path::new(DIRECTORY));
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
