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

use std::path::Path;

use cluster::{MemberFile, MemberFileError};
use environment::Disk;
use environment::real::RealDisk;
use tracing::warn;

use crate::Error;
use crate::config::{Config, Url};
use crate::identity::Identity;

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
        let found = MemberFile::find(disk, directory)?;
        Ok(found.map(|found| Membership {
            identity: Identity {
                member: found.member,
                cluster: found.cluster,
            },
            peer_urls: found.peer_urls,
        }))
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
        // Who has joined was named by the cluster, not by flags.
        if config.joins {
            return;
        }
        if config.cannot_begin.is_some() || Membership::described(config) != *self {
            let Identity { member, cluster } = self.identity;
            warn!(
                member = format!("{member:x}"),
                cluster = format!("{cluster:x}"),
                "the --initial-* flags name no member: \
                 the data directory has had its member and cluster since its first start"
            );
        }
    }

    /// Writes the file; on stable storage on return. The caller has the
    /// directory to itself.
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
