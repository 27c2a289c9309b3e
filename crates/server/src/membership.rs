//! Who this member is, once and for all.
//!
//! ```text
//!   first start:  flags ──► ids ──► file MEMBER in the data directory
//!   later starts:                   file MEMBER ──► ids      (flags: not looked at)
//! ```
//!
//! As in etcd, the flags `--initial-*` name a member when its data directory
//! begins. After that the directory knows: another token or another peer URL
//! must not make another member of the same data. The file is written before
//! the first answer leaves, so that no client ever saw names that a crash
//! could change.

mod format;

use std::io;
use std::path::{Path, PathBuf};

use environment::real::RealDisk;
use environment::{Disk, OpenMode};
use tracing::warn;

use crate::config::{Config, Url};
use crate::identity::Identity;
use crate::{Error, files};

const FILE: &str = "MEMBER";
const PARTIAL: &str = "MEMBER.partial";

/// What stays the same as long as the data does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Names of the member and its cluster.
    pub(crate) identity: Identity,
    /// Where peers would find it, as the member list says.
    pub(crate) peer_urls: Vec<String>,
}

impl Membership {
    /// What the directory says; `None` before its first start.
    pub(crate) fn find(disk: &dyn Disk, directory: &Path) -> Result<Option<Membership>, Error> {
        let file = directory.join(FILE);
        let text = match files::read_text_from(disk, &file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // A file in the directory's place: the engine says so.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(unusable(file, error.to_string()));
            }
            Err(error) => return Err(Error::Member(error)),
        };
        match format::decode(&text) {
            Ok(membership) => Ok(Some(membership)),
            Err(what) => Err(unusable(file, what)),
        }
    }

    /// What the flags say of a new member, if they can.
    pub(crate) fn of(config: &Config) -> Result<Membership, Error> {
        if let Some(error) = &config.cannot_begin {
            return Err(Error::Config(error.clone()));
        }
        Ok(Membership::described(config))
    }

    fn described(config: &Config) -> Membership {
        let urls = config.advertise_peer.iter().map(Url::as_str);
        Membership {
            identity: Identity::of(config),
            peer_urls: urls.map(str::to_owned).collect(),
        }
    }

    /// Tells whoever gave other flags since that they change nothing.
    pub(crate) fn tell_ignored_flags(&self, config: &Config) {
        if config.cannot_begin.is_some() || Membership::described(config) != *self {
            let Identity { member, cluster } = self.identity;
            warn!(
                member = format!("{member:x}"),
                cluster = format!("{cluster:x}"),
                "the --initial-* flags are not looked at: \
                 the data directory has had its member and cluster since its first start"
            );
        }
    }

    /// Writes the file; on stable storage on return. The caller has the
    /// directory to itself.
    pub(crate) fn keep(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        self.write(disk, directory).map_err(Error::Member)
    }

    fn write(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        let partial = directory.join(PARTIAL);
        match disk.remove(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.open(&partial, OpenMode::CreateNew)?;
        file.write_at(&[format::encode(self).as_bytes()], 0)?;
        file.sync_data()?;
        disk.rename(&partial, &directory.join(FILE))?;
        disk.sync_directory(directory)
    }
}

/// Whether a server could start with the file `MEMBER` of `directory`, or
/// could write a new one because there is none; an error says what is wrong
/// with it and what to do.
pub fn check_member_file(directory: &Path) -> Result<(), MemberFileDamage> {
    match Membership::find(&RealDisk, directory) {
        Ok(_) => Ok(()),
        Err(Error::MemberFile { what, .. }) => Err(MemberFileDamage {
            what,
            remedy: DAMAGED_REMEDY,
        }),
        Err(error) => Err(MemberFileDamage {
            what: error.to_string(),
            remedy: "run this as the user who owns it",
        }),
    }
}

/// What is wrong with a file `MEMBER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFileDamage {
    /// A predicate of the file.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

/// As [`Error::MemberFile`] says.
const DAMAGED_REMEDY: &str = "put a copy of it back, or remove it to have the --initial-* flags name \
     this member anew";

fn unusable(file: PathBuf, what: String) -> Error {
    Error::MemberFile { file, what }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedDisk;

    use super::*;
    use crate::config::testing;

    const DIRECTORY: &str = "/data";

    fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new(1);
        disk.create_directories(Path::new(DIRECTORY)).unwrap();
        disk
    }

    fn keep(disk: &SimulatedDisk) -> Membership {
        let membership = Membership::of(&testing::config(&[])).unwrap();
        membership.keep(disk, Path::new(DIRECTORY)).unwrap();
        membership
    }

    #[test]
    fn what_is_kept_is_found_also_over_the_remains_of_a_crash() {
        let disk = disk();
        let path = Path::new(DIRECTORY);
        assert_eq!(Membership::find(&disk, path).unwrap(), None);
        disk.open(&path.join(PARTIAL), OpenMode::CreateNew).unwrap();
        let membership = keep(&disk);
        assert_eq!(Membership::find(&disk, path).unwrap(), Some(membership));
        assert_eq!(disk.list(path).unwrap(), [FILE]);
    }

    #[test]
    fn a_damaged_file_is_refused_by_name() {
        let disk = disk();
        keep(&disk);
        let path = Path::new(DIRECTORY).join(FILE);
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        file.write_at(&[b"0"], 30).unwrap();
        let error = Membership::find(&disk, Path::new(DIRECTORY)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("/data/MEMBER") && text.contains("checksum"),
            "{text}"
        );
    }
}
