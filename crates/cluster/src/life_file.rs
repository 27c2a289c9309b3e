//! Whether a data directory may lack the end of what its member has acknowledged:
//! its file `LIFE`, see docs/formats/life.md.
//!
//! ```text
//!   inkstone life 1
//!   entries cached               or flushed
//!   whole yes                    or no
//!   boot 5f0c...-...             the kernel's; none: it could not be read
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```
//!
//! Without the file entries were flushed before they were acknowledged, and the
//! directory is whole. So it is written by members whose entries are only cached,
//! at each start before anything leaves, and removed by the others once they are
//! whole.

use std::io;
use std::path::Path;

use environment::Disk;

use crate::member_file::{read, replace, sum};

const FILE: &str = "LIFE";
const PARTIAL: &str = "LIFE.partial";
/// The first line without the version.
const TITLE: &str = "inkstone life ";
/// The version that this program writes, and the only one that it reads.
const VERSION: &str = "1";
const SUM: &str = "sha1 ";

/// What is known of the life that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LifeFile {
    /// It acknowledged what a loss of power may take.
    pub cached: bool,
    /// It had all that it and the lives before had acknowledged.
    pub whole: bool,
    /// The kernel that it ran under, if that is known.
    pub boot: Option<String>,
}

impl LifeFile {
    /// What the directory says. `Some(None)`: something that cannot be trusted.
    pub fn find(disk: &dyn Disk, directory: &Path) -> io::Result<Option<Option<LifeFile>>> {
        let file = directory.join(FILE);
        match read(disk, &file) {
            Ok(Ok(text)) => Ok(Some(decode(&text))),
            Ok(Err(_)) => Ok(Some(None)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file; on stable storage on return. The caller has the
    /// directory to itself.
    pub fn keep(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        replace(disk, directory, (PARTIAL, FILE), &encode(self))
    }

    /// Removes the file, for good on return.
    pub fn remove(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        match disk.remove(&directory.join(FILE)) {
            Ok(()) => disk.sync_directory(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn encode(life: &LifeFile) -> String {
    let entries = if life.cached { "cached" } else { "flushed" };
    let whole = if life.whole { "yes" } else { "no" };
    let boot = life.boot.as_deref().unwrap_or("none");
    let mut text = format!("{TITLE}{VERSION}\nentries {entries}\nwhole {whole}\nboot {boot}\n");
    let sum = sum(&text);
    text.push_str(&format!("{SUM}{sum}\n"));
    text
}

fn decode(text: &str) -> Option<LifeFile> {
    let body = &text[..text.rfind(SUM)?];
    if text.strip_prefix(body)? != format!("{SUM}{}\n", sum(body)) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()?.strip_prefix(TITLE)? != VERSION {
        return None;
    }
    let mut field = |name| lines.next()?.strip_prefix(name);
    let (entries, whole, boot) = (field("entries ")?, field("whole ")?, field("boot ")?);
    Some(LifeFile {
        cached: one_of(entries, "cached", "flushed")?,
        whole: one_of(whole, "yes", "no")?,
        boot: (boot != "none").then(|| boot.to_owned()),
    })
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
    fn what_is_kept_is_found_until_it_is_removed() {
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
    fn every_changed_byte_and_every_missing_end_is_seen() {
        let text = encode(&life());
        assert_eq!(decode(&text), Some(life()));
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(decode(&changed), None, "{changed}");
            assert_eq!(decode(&text[..place]), None, "cut at {place}");
        }
    }

    #[test]
    fn a_file_of_rubbish_is_there_and_not_trusted() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data"));
        disk.create_directories(path).unwrap();
        let file = disk.open(&path.join(FILE), OpenMode::CreateNew).unwrap();
        file.write_at(&[b"\xffrubbish"], 0).unwrap();
        assert_eq!(LifeFile::find(&disk, path).unwrap(), Some(None));
    }
}
