//! Fills a new data directory from a snapshot of etcd.
//!
//! ```text
//!   DIR.restoring: state, file MEMBER ──rename──► DIR
//! ```
//!
//! The directory has its name when it is complete: a crash leaves none that could be started.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bolt::DatabaseFile;
use environment::Disk;
use environment::real::RealDisk;
pub use revisions::{Restored, RevisionBump};
use thiserror::Error;

use crate::begin;
use crate::config::{self, Config};

/// Why no directory was made.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The flags describe no cluster that could begin.
    #[error(transparent)]
    Config(config::Error),
    /// There is something already.
    #[error("{} is not empty, and nothing of it may be lost; name a new --data-dir", .0.display())]
    NotEmpty(PathBuf),
    /// It could not get its name.
    #[error(
        "{} cannot be made: it must be a name in a folder, and neither a link nor a file system of its \
         own; name a directory below it in --data-dir, such as {}",
        .0.display(), .0.join("data").display()
    )]
    NoName(PathBuf),
    /// The file cannot be read, or is not what etcd writes.
    #[error(transparent)]
    File(etcd_snapshot::Error),
    /// The state cannot be written.
    #[error(transparent)]
    State(revisions::RestoreError),
    /// The file system refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Disk {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl From<revisions::RestoreError> for RestoreError {
    fn from(error: revisions::RestoreError) -> RestoreError {
        match error {
            revisions::RestoreError::File(error) => RestoreError::File(error),
            error => RestoreError::State(error),
        }
    }
}

fn disk_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.to_owned();
    move |source| RestoreError::Disk {
        action,
        path,
        source,
    }
}

/// Makes the data directory of the configuration from a file. The member and its cluster are those
/// that the flags describe, as at the first start of a new cluster. `progress` gets the bytes of
/// rows as they are read, all of them twice, and tells whether to go on.
pub fn restore(
    config: &Config,
    file: &DatabaseFile,
    bump: RevisionBump,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Restored, RestoreError> {
    let target = &config.node.directory;
    refuse_taken(target)?;
    let (folder, unfinished) = place_of(target)?;
    remove_left_over(&unfinished)?;
    let restored = fill(config, file, bump, &unfinished, progress)
        .and_then(|restored| finish(config, (&unfinished, target, &folder)).map(|()| restored));
    if restored.is_err() {
        // The failure that is reported is the one before; the next attempt tries again.
        let _ = remove(&unfinished);
    }
    restored
}

/// The folder of the directory, and the directory's name until it is complete.
fn place_of(target: &Path) -> Result<(PathBuf, PathBuf), RestoreError> {
    let no_name = || RestoreError::NoName(target.to_owned());
    let name = target.file_name().ok_or_else(no_name)?;
    let folder = target.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).to_owned();
    if let Ok(there) = fs::symlink_metadata(target) {
        let around = fs::metadata(&folder).map_err(disk_error("look at", &folder))?;
        if there.is_symlink() || there.dev() != around.dev() {
            return Err(no_name());
        }
    }
    let mut name = name.to_owned();
    name.push(".restoring");
    let unfinished = folder.join(name);
    Ok((folder, unfinished))
}

fn refuse_taken(target: &Path) -> Result<(), RestoreError> {
    match fs::read_dir(target).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(RestoreError::NotEmpty(target.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(disk_error("list", target)(error)),
    }
}

/// Removes what a restore that was interrupted has left.
fn remove_left_over(unfinished: &Path) -> Result<(), RestoreError> {
    if !unfinished.exists() {
        return Ok(());
    }
    // Held by the process that fills it.
    let lock = RealDisk.lock_directory(unfinished);
    drop(lock.map_err(disk_error("lock", unfinished))?);
    remove(unfinished).map_err(disk_error("remove", unfinished))
}

fn remove(unfinished: &Path) -> io::Result<()> {
    fs::remove_dir_all(unfinished)
}

fn fill(
    config: &Config,
    file: &DatabaseFile,
    bump: RevisionBump,
    unfinished: &Path,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Restored, RestoreError> {
    let founding = begin::founding_of(config).map_err(RestoreError::Config)?;
    let mut options = config.node.replica.machine.clone();
    options.member_id = founding.own.member;
    options.initial_members = founding.founders;
    let (disk, clock) = (
        Arc::clone(&config.node.disk),
        Arc::clone(&config.node.clock),
    );
    let source = (file, bump);
    Ok(revisions::restore(
        disk, unfinished, options, clock, source, progress,
    )?)
}

/// Writes the member's ids, and gives the directory its name. The lock keeps another restore from
/// removing it before.
#[expect(
    clippy::disallowed_methods,
    reason = "the server opens it on the real disk, too"
)]
fn finish(
    config: &Config,
    (unfinished, target, folder): (&Path, &Path, &Path),
) -> Result<(), RestoreError> {
    let lock = RealDisk.lock_directory(unfinished);
    let _lock = lock.map_err(disk_error("lock", unfinished))?;
    let founding = begin::founding_of(config).map_err(RestoreError::Config)?;
    let kept = founding.own.keep(&RealDisk, unfinished);
    kept.map_err(disk_error("write MEMBER in", unfinished))?;
    fs::rename(unfinished, target).map_err(disk_error("rename to", target))?;
    RealDisk
        .sync_directory(folder)
        .map_err(disk_error("sync", folder))
}
