//! The ids of this member and its cluster, fixed when the data directory begins.
//!
//! ```text
//!   first start:  flags ──► ids ──► file MEMBER in the data directory
//!   later starts:                   file MEMBER ──► ids      (flags: ignored)
//! ```
//!
//! As in etcd, the flags `--initial-*` determine a member's ids when its data directory
//! begins. After that the file does: another token or another peer URL
//! must not make another member of the same data. The file is written before
//! the first answer is sent, so no client ever sees ids that a crash
//! could change.

use std::path::Path;

use cluster::{MemberFile, MemberFileError};
use environment::Disk;
use environment::real::RealDisk;
use tracing::warn;

use crate::Error;
use crate::config::{Config, Url};
use crate::identity::Identity;

/// The content of the file `MEMBER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) identity: Identity,
    /// Peer URLs that the member list shows for it.
    pub(crate) peer_urls: Vec<String>,
}

impl Membership {
    /// Reads the file of a directory; `None` before its first start.
    pub(crate) fn find(disk: &dyn Disk, directory: &Path) -> Result<Option<Membership>, Error> {
        let found = MemberFile::find(disk, directory)?;
        Ok(found.map(|found| Membership {
            identity: Identity {
                member: found.member,
                cluster: found.cluster,
            },
            peer_urls: found.peer_urls,
        }))
    }

    /// The membership that the flags describe; an error if no member can begin with them.
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

    /// Warns if the flags describe another member or cluster than the file, which counts.
    pub(crate) fn warn_of_ignored_flags(&self, config: &Config) {
        // A member that joined has its ids from the cluster, not from flags.
        if config.joins {
            return;
        }
        if config.cannot_begin.is_some() || Membership::described(config) != *self {
            let Identity { member, cluster } = self.identity;
            warn!(
                member = format!("{member:x}"),
                cluster = format!("{cluster:x}"),
                "the --initial-* flags are ignored: \
                 the data directory has had its member and cluster since its first start"
            );
        }
    }

    /// Writes the file, which is on stable storage on return. The caller must hold the
    /// directory's lock.
    pub(crate) fn keep(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let kept = MemberFile {
            member: self.identity.member,
            cluster: self.identity.cluster,
            peer_urls: self.peer_urls.clone(),
        };
        kept.keep(disk, directory).map_err(Error::Member)
    }
}

impl From<MemberFileError> for Error {
    fn from(error: MemberFileError) -> Error {
        match error {
            MemberFileError::Unusable { file, what } => Error::MemberFile { file, what },
            MemberFileError::Disk(error) => Error::Member(error),
        }
    }
}

/// Checks that a server could start with the file `MEMBER` of `directory`, or
/// could write a new one because there is none. The error says what is wrong
/// with the file and what to do.
pub fn check_member_file(directory: &Path) -> Result<(), MemberFileDamage> {
    match Membership::find(&RealDisk, directory) {
        Ok(_) => Ok(()),
        Err(Error::MemberFile { what, .. }) => Err(MemberFileDamage {
            what,
            remedy: DAMAGED_REMEDY,
        }),
        Err(error) => Err(MemberFileDamage {
            what: error.to_string(),
            remedy: "run this as the user that owns it",
        }),
    }
}

/// What is wrong with a file `MEMBER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFileDamage {
    /// The fault: a predicate, with the file's name as its subject.
    pub what: String,
    pub remedy: &'static str,
}

/// The remedy that [`Error::MemberFile`] names.
const DAMAGED_REMEDY: &str = "put a copy of it back, or remove it: then the --initial-* flags name \
     this member again";
