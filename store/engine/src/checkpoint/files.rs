//! Names of checkpoint files, and which of them stay.

use crate::Error;
use environment::Disk;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".checkpoint";
/// The file being written.
pub(crate) const PARTIAL: &str = "checkpoint.partial";
/// The file of a snapshot that is being received.
pub(crate) const INCOMING: &str = "snapshot.partial";
/// The newest, and the one before in case the newest turns out damaged.
pub(crate) const KEPT: usize = 2;
/// Number of a new directory's empty checkpoint.
pub(crate) const FIRST: u64 = 1;

pub(crate) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}{SUFFIX}"))
}

/// Names of all files in the directory.
pub(crate) fn list(disk: &dyn Disk, directory: &Path) -> Result<Vec<String>, Error> {
    disk.list(directory).map_err(Error::disk("list", directory))
}

/// Makes a finished file the checkpoint of that number, for good.
pub(crate) fn finish(
    disk: &dyn Disk,
    directory: &Path,
    name: &str,
    number: u64,
) -> Result<(), Error> {
    let to = path(directory, number);
    disk.rename(&directory.join(name), &to)
        .map_err(Error::disk("rename to", &to))?;
    disk.sync_directory(directory)
        .map_err(Error::disk("sync", directory))
}

/// Numbers of the checkpoints among `names`, newest first.
pub(crate) fn numbers(names: &[String]) -> Vec<u64> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Removes all but the newest `kept`. Should a crash bring one back, it is
/// looked at only when all newer ones are damaged, and then refused, because
/// it points into segments that are gone.
pub(crate) fn remove_old(disk: &dyn Disk, directory: &Path, kept: usize) -> Result<(), Error> {
    let names = list(disk, directory)?;
    for number in numbers(&names).into_iter().skip(kept) {
        let path = path(directory, number);
        disk.remove(&path).map_err(Error::disk("remove", &path))?;
    }
    Ok(())
}

/// Removes the remains of a file that was never finished.
pub(crate) fn remove(disk: &dyn Disk, directory: &Path, name: &str) -> Result<(), Error> {
    let names = list(disk, directory)?;
    if !names.iter().any(|other| other == name) {
        return Ok(());
    }
    let path = directory.join(name);
    disk.remove(&path).map_err(Error::disk("remove", &path))
}

/// The newest checkpoint's number; that of a new directory's where there is none,
/// because the state was rebuilt from the log.
pub(crate) fn newest(disk: &dyn Disk, directory: &Path) -> Result<u64, Error> {
    let names = list(disk, directory)?;
    Ok(numbers(&names).first().copied().unwrap_or(FIRST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_count_and_the_newest_comes_first() {
        let names = [
            "0000000000000002.checkpoint",
            "checkpoint.partial",
            "2.checkpoint",
            "LOCK",
        ];
        let mut names: Vec<String> = names.map(String::from).to_vec();
        names.push("000000000000001f.checkpoint".into());
        assert_eq!(numbers(&names), [0x1f, 2]);
        assert!(path(Path::new("d"), 0x1f).ends_with("000000000000001f.checkpoint"));
    }
}
