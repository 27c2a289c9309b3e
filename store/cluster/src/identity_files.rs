//! Small text files that say whose a data directory is: to which member it belongs
//! ([`MemberFile`]), whether its last life kept all that it acknowledged ([`LifeFile`]), and
//! whether the cluster has removed the member ([`RemovalFile`]).
//!
//! ```text
//!   inkstone member 1              kind of the file, version of its format
//!   member 8e9e05c52164694d        lines of this kind
//!   ...
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```
//!
//! A file is replaced as a whole: written as `NAME.partial`, flushed, renamed, and the
//! directory is flushed.

mod life;
mod member;
mod removed;

use std::io;
use std::path::{Path, PathBuf};

use environment::{Disk, OpenMode};
use sha1::{Digest, Sha1};

pub(crate) use life::LifeFile;
pub use member::{MemberFile, MemberFileError, holds_data};
pub(crate) use removed::{RemovalFile, refuse_removed};

const SUM: &str = "sha1 ";
/// The version that this program writes, and the only one that it reads.
const VERSION: &str = "1";
/// A larger file is not a file of this program.
const BYTES_MAX: u64 = 1 << 20;

/// A kind of file in a data directory, by its name. Its first line has the name in small letters.
#[derive(Clone, Copy, Debug)]
struct IdentityFile(&'static str);

impl IdentityFile {
    fn path(self, directory: &Path) -> PathBuf {
        directory.join(self.0)
    }

    /// Reads the lines between the first one and the checksum; `None` if there is no file. An
    /// inner `Err` says why the file cannot be trusted: a predicate, with the file's name as
    /// its subject.
    fn read(self, disk: &dyn Disk, directory: &Path) -> io::Result<Option<Result<String, String>>> {
        let text = match read(disk, &self.path(directory)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The engine reports a file in the place of the directory.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(error),
        };
        let lines = text.map_err(str::to_owned);
        Ok(Some(
            lines.and_then(|text| self.unseal(&text).map(str::to_owned)),
        ))
    }

    /// Replaces the file by one with these lines. It is on stable storage on return. The caller
    /// must have locked the directory.
    fn write(self, disk: &dyn Disk, directory: &Path, lines: &str) -> io::Result<()> {
        let partial = directory.join(format!("{}.partial", self.0));
        remove(disk, &partial)?;
        let file = disk.open(&partial, OpenMode::CreateNew)?;
        file.write_at(&[self.seal(lines).as_bytes()], 0)?;
        file.sync_data()?;
        disk.rename(&partial, &self.path(directory))?;
        disk.sync_directory(directory)
    }

    /// Removes the file; the removal is on stable storage on return.
    fn remove(self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        match remove(disk, &self.path(directory))? {
            true => disk.sync_directory(directory),
            false => Ok(()),
        }
    }

    /// The first line without the version.
    fn title(self) -> String {
        format!("inkstone {} ", self.0.to_lowercase())
    }

    fn seal(self, lines: &str) -> String {
        let text = format!("{}{VERSION}\n{lines}", self.title());
        let digest = Sha1::digest(text.as_bytes());
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{text}{SUM}{digits}\n")
    }

    /// The lines of a text that is exactly what [`IdentityFile::seal`] made.
    fn unseal(self, text: &str) -> Result<&str, String> {
        let title = self.title();
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        match first.strip_prefix(&title) {
            Some(VERSION) => {}
            Some(version) => {
                return Err(format!(
                    "has format {version}, this program reads {VERSION}"
                ));
            }
            None => return Err(format!("does not begin with {:?}", title.trim_end())),
        }
        let lines = rest.rfind(SUM).map(|end| &rest[..end]);
        let lines = lines.filter(|lines| self.seal(lines) == text);
        Ok(lines.ok_or("does not match its checksum")?)
    }
}

/// Removes a file; false if there was none.
fn remove(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.remove(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a file's text; an inner `Err` says why it is not a text of this program.
fn read(disk: &dyn Disk, path: &Path) -> io::Result<Result<String, &'static str>> {
    let file = disk.open(path, OpenMode::Read)?;
    let size = file.size()?;
    if size > BYTES_MAX {
        return Ok(Err("is larger than 1 MiB"));
    }
    let mut bytes = vec![0; size as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(String::from_utf8(bytes).map_err(|_| "is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: IdentityFile = IdentityFile("MEMBER");

    #[test]
    fn every_changed_byte_and_every_missing_end_is_detected() {
        let lines = "member 8e9e05c52164694d\n";
        let text = FILE.seal(lines);
        assert!(text.starts_with("inkstone member 1\nmember 8e9e05c52164694d\nsha1 "));
        assert_eq!(FILE.unseal(&text), Ok(lines));
        for place in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[place] ^= 1;
            let changed = String::from_utf8(bytes).expect("ASCII with its lowest bit changed");
            assert!(FILE.unseal(&changed).is_err(), "{changed}");
            assert!(FILE.unseal(&text[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn a_newer_format_and_another_file_are_distinguished_from_damage() {
        for (text, expected) in [
            ("inkstone member 2\n", "has format 2, this program reads 1"),
            (
                "inkstone life 1\n",
                "does not begin with \"inkstone member\"",
            ),
            ("inkstone member 1\n", "does not match its checksum"),
        ] {
            assert_eq!(FILE.unseal(text), Err(expected.to_owned()));
        }
    }
}
