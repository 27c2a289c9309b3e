//! A data directory, looked at from outside.
//!
//! Reading takes no lock and changes nothing, so it is allowed beside a
//! running server. The kernel names the server's process: `/proc/locks` lists the
//! holders of locks, and reading it does not affect them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use environment::real::RealDisk;
use value_log::inspect::Directory;

use crate::failure::Failure;

pub(crate) const LOCK_FILE: &str = "LOCK";
/// File of the ids of the member and its cluster; the server checks it at every start.
pub(crate) const MEMBER_FILE: &str = "MEMBER";
/// File that says whether the end of the log may be lost; an unreadable one means yes.
pub(crate) const LIFE_FILE: &str = "LIFE";
/// File that exists once the cluster has removed the member; the server reads it at every
/// start.
pub(crate) const REMOVED_FILE: &str = "REMOVED";

/// A directory that holds a log.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    pub(crate) path: PathBuf,
    pub(crate) files: Directory,
    /// Process that has the directory open now.
    pub(crate) holder: Option<u32>,
}

impl DataDirectory {
    /// Finds the log in `path`; the error says what is there instead.
    pub(crate) fn open(path: &Path) -> Result<DataDirectory, Failure> {
        let shown = path.display();
        if !path.exists() {
            return Err(Failure::wrong_use(
                format_args!("there is no directory {shown}"),
                "Name the server's data directory (inkstone serve --data-dir).",
            ));
        }
        if !path.is_dir() {
            return Err(Failure::wrong_use(
                format_args!("{shown} is a file, not a data directory"),
                "Name the directory that holds it.",
            ));
        }
        let files = Directory::list(&RealDisk, path)
            .map_err(|error| Failure::wrong_use(error, "Run this as the user that owns it."))?;
        if files.segments.is_empty() {
            return Err(holds_no_log(path, &files));
        }
        Ok(DataDirectory {
            path: path.to_owned(),
            files,
            holder: holder_of(path),
        })
    }
}

fn holds_no_log(path: &Path, files: &Directory) -> Failure {
    let shown = path.display();
    let remedy = if path.join("member").join("snap").is_dir() {
        "It looks like a data directory of etcd: only `inkstone snapshot save --data-dir` reads it."
    } else if files.others.is_empty() && files.spares.is_empty() {
        "It is empty: name the server's data directory (inkstone serve --data-dir)."
    } else {
        "Name the server's data directory (inkstone serve --data-dir)."
    };
    Failure::wrong_use(
        format_args!("{shown} holds no Inkstone log (no *.log file)"),
        remedy,
    )
}

/// The process that holds the directory's lock.
fn holder_of(directory: &Path) -> Option<u32> {
    let path = directory.join(LOCK_FILE);
    let owner: u32 = server::read_text(&path).ok()?.trim().parse().ok()?;
    let inode = std::fs::metadata(&path).ok()?.ino();
    let locks = server::read_text(Path::new("/proc/locks")).ok()?;
    locks
        .lines()
        .any(|line| is_lock(line, owner, inode))
        .then_some(owner)
}

/// `1: FLOCK  ADVISORY  WRITE 4711 fd:01:131 0 EOF`
fn is_lock(line: &str, owner: u32, inode: u64) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let held_by = words.get(4).and_then(|word| word.parse().ok());
    let held_on = words
        .get(5)
        .and_then(|word| word.rsplit(':').next()?.parse().ok());
    words.get(1) == Some(&"FLOCK") && held_by == Some(owner) && held_on == Some(inode)
}

#[cfg(test)]
mod tests {
    use environment::Disk;

    use super::*;

    #[test]
    fn a_held_lock_is_seen_and_a_dropped_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let lock = RealDisk.lock_directory(directory.path()).unwrap();
        assert_eq!(holder_of(directory.path()), Some(std::process::id()));
        drop(lock);
        assert_eq!(holder_of(directory.path()), None);
    }

    #[test]
    fn only_the_line_with_process_and_file_counts() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 fd:01:131 0 EOF";
        assert!(is_lock(line, 4711, 131));
        assert!(!is_lock(line, 4711, 132));
        assert!(!is_lock(line, 4712, 131));
        assert!(!is_lock("garbage", 4711, 131));
    }
}
