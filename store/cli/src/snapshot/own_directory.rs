//! `inkstone snapshot` with the data directory of a stopped member.

use std::path::Path;

use etcd_snapshot::{FileHash, FileStatus};

use super::etcd_directory;
use crate::directory::DataDirectory;
use crate::failure::Failure;
use crate::progress::LateProgress;

/// The numbers of the snapshot that could be saved from it.
pub(super) fn status(directory: &Path) -> Result<FileStatus, Failure> {
    check_stopped(directory)?;
    let shown = LateProgress::default();
    let status = server::directory_status(
        directory,
        |bytes| shown.begin("reading", bytes),
        |bytes| shown.advance(bytes),
    );
    let (status, uncommitted) = status.map_err(|error| Failure::failed(error, ""))?;
    warn_of(uncommitted);
    Ok(status)
}

pub(super) fn hash(directory: &Path, revision: i64) -> Result<FileHash, Failure> {
    check_stopped(directory)?;
    let hash = server::directory_hash(directory, revision);
    let (hash, uncommitted) = hash.map_err(|error| Failure::failed(error, ""))?;
    warn_of(uncommitted);
    Ok(FileHash {
        hash: hash.hash,
        hash_revision: hash.hash_revision,
        compact_revision: hash.compact_revision,
    })
}

/// Refuses a directory that a server has, and one that is not Inkstone's.
pub(super) fn check_stopped(directory: &Path) -> Result<(), Failure> {
    if etcd_directory::is_etcd(directory) {
        let shown = directory.display();
        return Err(Failure::wrong_use(
            format_args!("{shown} is a data directory of etcd"),
            format_args!(
                "Save its state first, which takes its write-ahead log into account:\n  \
                 inkstone snapshot save FILE --data-dir {shown}"
            ),
        ));
    }
    match DataDirectory::open(directory)?.holder {
        None => Ok(()),
        Some(process) => Err(Failure::wrong_use(
            format_args!("process {process} serves {}", directory.display()),
            "Leave the directory out, and ask the server with --endpoint; or stop it first.",
        )),
    }
}

fn warn_of(uncommitted: usize) {
    if uncommitted > 0 {
        eprintln!(
            "{uncommitted} entries of its log are left out: the member did not know that a majority \
             has them."
        );
    }
}
