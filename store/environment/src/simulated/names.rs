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
pub(super) struct NameChange {
    from: Option<PathBuf>,
    to: Option<PathBuf>,
    inode: InodeId,
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
    /// Makes a change that is not durable yet: a creation has no `from`, a removal no `to`.
    pub fn change(&mut self, from: Option<&Path>, to: Option<&Path>, inode: InodeId) {
        let [from, to] = [from, to].map(|path| path.map(Path::to_path_buf));
        let change = NameChange { from, to, inode };
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
            .partition(|change| change.directory() == Some(directory));
        self.pending = rest;
        taken
    }

    /// After the power came back: `survived` of the pending changes, in
    /// order, and nothing else.
    pub fn keep_only(&mut self, survived: &[NameChange]) {
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
            || self.pending.iter().any(|change| change.inode == inode)
    }
}

impl NameChange {
    pub fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
        // An earlier change may have been lost, and the old name may lead elsewhere.
        if let Some(from) = &self.from
            && names.get(from) == Some(&self.inode)
        {
            names.remove(from);
        }
        if let Some(to) = &self.to {
            names.insert(to.clone(), self.inode);
        }
    }

    fn directory(&self) -> Option<&Path> {
        self.from.as_ref().or(self.to.as_ref())?.parent()
    }
}

impl fmt::Display for NameChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [&self.from, &self.to].map(|it| it.as_ref().map(|path| path.display()));
        match (from, to) {
            (Some(from), Some(to)) => write!(formatter, "rename {from} to {to}"),
            (Some(from), None) => write!(formatter, "remove {from}"),
            (None, Some(to)) => write!(formatter, "create {to}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_of_a_lost_creation_still_leads_to_its_file() {
        let mut names = NameTable::default();
        let [from, to] = [Path::new("/d/a"), Path::new("/d/b")];
        names.change(None, Some(from), 1);
        names.change(Some(from), Some(to), 1);
        let rename = names.pending[1].clone();
        names.keep_only(&[rename]);
        assert_eq!(names.cached, BTreeMap::from([(PathBuf::from("/d/b"), 1)]));
    }

    #[test]
    fn syncing_one_directory_leaves_another_pending() {
        let mut names = NameTable::default();
        names.change(None, Some(Path::new("/d/a")), 1);
        names.change(None, Some(Path::new("/e/a")), 2);
        assert_eq!(names.sync(Path::new("/d")), 1);
        names.keep_only(&[]);
        assert_eq!(names.cached, BTreeMap::from([(PathBuf::from("/d/a"), 1)]));
    }
}
