//! What labs that were killed have left behind.
//!
//! Each folder of a run holds a file that its lab has locked. The kernel unlocks it
//! when the lab ends, however it ends; so a folder whose file can be locked belongs to
//! nobody. The file is locked before it gets its name: none is ever seen unlocked that
//! has an owner.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::ground::Ground;

/// What the folder of a run is called, up to letters that are drawn.
pub const PREFIX: &str = "lab-";
const OWNED: &str = "inkstone-lab.owned";
const NOT_YET: &str = "inkstone-lab.making";

/// Marks a folder as one of this process, as long as the file is open.
pub fn own(folder: &Path) -> std::io::Result<File> {
    let making = folder.join(NOT_YET);
    let file = File::create_new(&making)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(making, folder.join(OWNED))?;
    Ok(file)
}

/// Removes the folders below `parent` whose labs are gone; those that it removed.
pub fn remove_left(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    // Of a link nothing is known but its name.
    let folders = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut removed = Vec::new();
    for folder in folders.map(|entry| entry.path()) {
        let Some(file) = left(&folder) else { continue };
        Ground::undo(&folder);
        drop(file);
        if !folder.exists() {
            removed.push(folder);
        }
    }
    removed
}

/// The mark of a folder that was a lab's of this user and is nobody's, locked.
fn left(folder: &Path) -> Option<File> {
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
    fn only_folders_whose_lab_is_gone_are_removed() {
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

        assert_eq!(remove_left(parent), [left]);
        for kept in [&alive, &unmarked, &elsewhere] {
            assert!(kept.join("dddd/data").exists(), "{}", kept.display());
        }
        drop(owner);
        assert_eq!(remove_left(parent), [alive]);
    }

    #[test]
    fn a_parent_that_is_not_there_has_nothing_left() {
        assert!(remove_left(Path::new("/nowhere/at/all")).is_empty());
    }
}
