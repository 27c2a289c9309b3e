//! The directory tree: names and the files they lead to.
//!
//! A creation, a rename or a removal is seen at once and is durable after
//! `sync_directory`. Between the two a loss of power keeps some of them: a
//! journal keeps a prefix (ext4, XFS, btrfs), a file system without one may
//! keep any subset. A rename is never half done either way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Number of a file; never used twice.
pub(super) type InodeId = u64;

/// One change to a directory.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Link {
        path: PathBuf,
        inode: InodeId,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        inode: InodeId,
    },
    Unlink {
        path: PathBuf,
        inode: InodeId,
    },
}

/// The directory tree.
#[derive(Clone, Debug, Default)]
pub(super) struct NameTable {
    /// As every caller sees it.
    pub cached: BTreeMap<PathBuf, InodeId>,
    /// As it survives for certain.
    pub stable: BTreeMap<PathBuf, InodeId>,
    /// Changes that are in `cached` and not in `stable`, oldest first.
    pub pending: Vec<NameChange>,
    /// Directories; durable when made.
    pub directories: BTreeSet<PathBuf>,
}

impl NameTable {
    /// Makes a change that is not durable yet.
    pub fn change(&mut self, change: NameChange) {
        change.apply(&mut self.cached);
        self.pending.push(change);
    }

    /// Makes the changes of one directory durable; returns how many.
    pub fn sync(&mut self, directory: &Path) -> usize {
        let changes = self.take_pending(directory);
        changes
            .iter()
            .for_each(|change| change.apply(&mut self.stable));
        changes.len()
    }

    /// Takes a directory's changes out of what can still become durable.
    pub fn take_pending(&mut self, directory: &Path) -> Vec<NameChange> {
        let (taken, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|change| change.path().parent() == Some(directory));
        self.pending = rest;
        taken
    }

    /// After the power came back: `survived` of the pending changes, in
    /// order, and nothing else.
    pub fn settle(&mut self, survived: &[NameChange]) {
        survived
            .iter()
            .for_each(|change| change.apply(&mut self.stable));
        self.pending.clear();
        self.cached = self.stable.clone();
    }

    /// Whether any view of the tree, or any change under way, needs `inode`.
    pub fn mentions(&self, inode: InodeId) -> bool {
        self.cached
            .values()
            .chain(self.stable.values())
            .any(|&it| it == inode)
            || self.pending.iter().any(|change| change.inode() == inode)
    }
}

impl NameChange {
    pub fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
        match self {
            NameChange::Link { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Rename { from, to, inode } => {
                remove_if(names, from, *inode);
                names.insert(to.clone(), *inode);
            }
            NameChange::Unlink { path, inode } => remove_if(names, path, *inode),
        }
    }

    fn path(&self) -> &Path {
        match self {
            NameChange::Link { path, .. } | NameChange::Unlink { path, .. } => path,
            NameChange::Rename { from, .. } => from,
        }
    }

    pub fn inode(&self) -> InodeId {
        match self {
            NameChange::Link { inode, .. }
            | NameChange::Rename { inode, .. }
            | NameChange::Unlink { inode, .. } => *inode,
        }
    }
}

/// An earlier change may have been lost and the name may lead elsewhere.
fn remove_if(names: &mut BTreeMap<PathBuf, InodeId>, path: &Path, inode: InodeId) {
    if names.get(path) == Some(&inode) {
        names.remove(path);
    }
}

impl fmt::Display for NameChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameChange::Link { path, .. } => write!(formatter, "create {}", path.display()),
            NameChange::Rename { from, to, .. } => {
                write!(formatter, "rename {} to {}", from.display(), to.display())
            }
            NameChange::Unlink { path, .. } => write!(formatter, "remove {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rename() -> NameChange {
        NameChange::Rename {
            from: "/d/a".into(),
            to: "/d/b".into(),
            inode: 1,
        }
    }

    #[test]
    fn a_rename_of_a_lost_creation_still_leads_to_its_file() {
        let mut names = NameTable::default();
        names.change(NameChange::Link {
            path: "/d/a".into(),
            inode: 1,
        });
        names.change(rename());
        names.settle(&[rename()]);
        assert_eq!(names.cached, BTreeMap::from([(PathBuf::from("/d/b"), 1)]));
    }

    #[test]
    fn syncing_one_directory_leaves_another_pending() {
        let mut names = NameTable::default();
        names.change(NameChange::Link {
            path: "/d/a".into(),
            inode: 1,
        });
        names.change(NameChange::Link {
            path: "/e/a".into(),
            inode: 2,
        });
        assert_eq!(names.sync(Path::new("/d")), 1);
        names.settle(&[]);
        assert_eq!(names.cached, BTreeMap::from([(PathBuf::from("/d/a"), 1)]));
    }
}
