//! The file `LIFE`, see docs/formats/life.md: whether a data directory may lack the last
//! entries that its member has acknowledged.
//!
//! ```text
//!   inkstone life 1
//!   entries cached               or flushed
//!   whole yes                    or no
//!   boot 5f0c...-...             the kernel's; none: it could not be read
//!   sha1 ...
//! ```
//!
//! If there is no file, entries were flushed before they were acknowledged, and the directory
//! is whole. A member that acknowledges entries from the page cache writes the file at each
//! start, before its first message. Any other member removes it once it is whole.

use std::path::Path;

use environment::Disk;

use super::IdentityFile;
use crate::Error;

const FILE: IdentityFile = IdentityFile("LIFE");

/// What the file says of the life that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LifeFile {
    /// It acknowledged entries that a loss of power may take.
    pub cached: bool,
    /// It had all entries that it and the lives before had acknowledged.
    pub whole: bool,
    /// Identifies the start of the kernel under which it ran, if that is known.
    pub boot: Option<String>,
}

impl LifeFile {
    /// Reads the file; `None` if there is none, `Some(None)` if it is damaged.
    pub fn find(disk: &dyn Disk, directory: &Path) -> Result<Option<Option<LifeFile>>, Error> {
        let found = FILE.read(disk, directory);
        let found = found.map_err(Error::file(FILE.path(directory)))?;
        Ok(found.map(|lines| LifeFile::decode(&lines.ok()?)))
    }

    /// Writes the file; it is on stable storage on return. The caller must have locked the
    /// directory.
    pub fn keep(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let written = FILE.write(disk, directory, &self.encode());
        written.map_err(Error::file(FILE.path(directory)))
    }

    /// Removes the file; the removal is on stable storage on return.
    pub fn remove(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let removed = FILE.remove(disk, directory);
        removed.map_err(Error::file(FILE.path(directory)))
    }

    fn encode(&self) -> String {
        let entries = if self.cached { "cached" } else { "flushed" };
        let whole = if self.whole { "yes" } else { "no" };
        let boot = self.boot.as_deref().unwrap_or("none");
        format!("entries {entries}\nwhole {whole}\nboot {boot}\n")
    }

    fn decode(lines: &str) -> Option<LifeFile> {
        let mut lines = lines.lines();
        let mut field = |name| lines.next()?.strip_prefix(name);
        let (entries, whole, boot) = (field("entries ")?, field("whole ")?, field("boot ")?);
        Some(LifeFile {
            cached: one_of(entries, "cached", "flushed")?,
            whole: one_of(whole, "yes", "no")?,
            boot: (boot != "none").then(|| boot.to_owned()),
        })
    }
}

fn one_of(word: &str, yes: &str, no: &str) -> Option<bool> {
    (word == yes || word == no).then_some(word == yes)
}

#[cfg(test)]
mod tests {
    use environment::OpenMode;
    use environment::simulated::SimulatedDisk;

    use super::*;

    fn life() -> LifeFile {
        LifeFile {
            cached: true,
            whole: false,
            boot: Some("5f0c-1".into()),
        }
    }

    #[test]
    fn a_written_file_is_found_until_it_is_removed() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), None);
        life().keep(&disk, path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(Some(life())));
        let unknown = LifeFile {
            boot: None,
            ..life()
        };
        unknown.keep(&disk, path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(Some(unknown)));
        LifeFile::remove(&disk, path).unwrap();
        LifeFile::remove(&disk, path).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), None);
    }

    #[test]
    fn a_damaged_file_is_found_and_not_trusted() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        let file = FILE.path(path);
        let file = disk.open(&file, OpenMode::CreateNew).unwrap();
        for damage in ["inkstone life 1\n\u{fffd}", &FILE.seal("entries cached\n")] {
            file.write_at(&[damage.as_bytes()], 0).unwrap();
            assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(None));
        }
        file.write_at(&[b"\xff"], 0).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(None));
    }
}
