//! Files of settings: their contents, and whether they have changed.

use std::fs::{File, metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::Error;

/// A longer file is none of certificates; reading stops here.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file and the option that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Without dashes: `cert-file`.
    pub option: &'static str,
    pub path: PathBuf,
}

/// Distinguishes the states of a file: device, inode, size and time of the last change; `None`
/// if there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Option<[i128; 5]>);

impl NamedFile {
    pub(crate) fn wrong(&self, problem: impl Into<String>) -> Error {
        Error::File {
            option: self.option,
            path: self.path.clone(),
            problem: problem.into(),
        }
    }

    /// The whole file.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Error> {
        let unread = |error| self.wrong(format!("the file cannot be read: {error}"));
        #[expect(
            clippy::disallowed_methods,
            reason = "certificates are the operator's files, not the store's"
        )]
        let file = File::open(&self.path).map_err(unread)?;
        if file.metadata().map_err(unread)?.is_dir() {
            return Err(self.wrong("it is a directory; name a file"));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(unread)?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(self.wrong(format!("the file is larger than {FILE_BYTES_MAX} bytes"))),
            false => Ok(bytes),
        }
    }

    /// The state of the file. Links are followed, so that a link that is replaced counts as a
    /// change.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(metadata(&self.path).ok().map(|it| {
            [
                it.dev().into(),
                it.ino().into(),
                it.size().into(),
                it.mtime().into(),
                it.mtime_nsec().into(),
            ]
        }))
    }
}
