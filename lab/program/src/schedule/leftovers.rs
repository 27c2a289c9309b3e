//! Leftover folders of lab processes that were killed.
//!
//! Each folder of a run holds a file that its lab process has locked. The kernel releases the
//! lock when the process ends, however it ends: where the file can be locked, the folder has
//! no owner any more. The file is locked before it gets its name, so an owned folder is
//! never seen with an unlocked file.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::run_directory::RunDirectory;

/// Prefix of the names of runs' folders; random letters follow.
pub const PREFIX: &str = "lab-";
const OWNED: &str = "inkstone-lab.owned";
const NOT_YET: &str = "inkstone-lab.making";

/// Marks a folder as owned by this process as long as the returned file is open.
pub fn own(folder: &Path) -> std::io::Result<File> {
    let making = folder.join(NOT_YET);
    let file = File::create_new(&making)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(making, folder.join(OWNED))?;
    Ok(file)
}

/// Removes the folders below `parent` that have no owner any more; returns the removed ones.
pub fn remove_leftovers(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    // Links are skipped: their targets may be anything.
    let folders = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut removed = Vec::new();
    for folder in folders.map(|entry| entry.path()) {
        let Some(file) = lock_if_unowned(&folder) else {
            continue;
        };
        RunDirectory::undo(&folder);
        drop(file);
        if !folder.exists() {
            removed.push(folder);
        }
    }
    removed
}

/// Locks the mark of a folder that belonged to a lab process of this user and has no owner
/// any more; `None` for all other folders.
fn lock_if_unowned(folder: &Path) -> Option<File> {
    let about = std::fs::symlink_metadata(folder.join(OWNED)).ok()?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let file = File::open(folder.join(OWNED)).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(parent: &Path, name: &str) -> PathBuf {
        let folder = parent.join(name);
        std::fs::create_dir_all(folder.join("dddd")).unwrap();
        std::fs::write(folder.join("dddd/data"), "a run's").unwrap();
        folder
    }

    #[test]
    fn only_folders_without_an_owner_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let left = folder(parent, "lab-left");
        drop(own(&left).unwrap());
        let alive = folder(parent, "lab-alive");
        let owner = own(&alive).unwrap();
        let unmarked = folder(parent, "lab-unmarked");
        let elsewhere = folder(parent, "elsewhere");
        drop(own(&elsewhere).unwrap());
        std::os::unix::fs::symlink(&elsewhere, parent.join("lab-link")).unwrap();

        assert_eq!(remove_leftovers(parent), [left]);
        for kept in [&alive, &unmarked, &elsewhere] {
            assert!(kept.join("dddd/data").exists(), "{}", kept.display());
        }
        drop(owner);
        assert_eq!(remove_leftovers(parent), [alive]);
    }

    #[test]
    fn a_missing_parent_has_no_leftovers() {
        assert!(remove_leftovers(Path::new("/nowhere/at/all")).is_empty());
    }
}
