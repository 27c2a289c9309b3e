//! A file that a verb of `inkstone snapshot` reads.

use std::path::{Path, PathBuf};

use bolt::DatabaseFile;
use etcd_snapshot::Error;

use crate::failure::Failure;
use crate::progress::Progress;

/// The file of an action.
#[derive(Debug, clap::Args)]
pub(super) struct Opened {
    /// The file; for status and hashkv also the data directory of a stopped member of Inkstone
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Read it although the SHA-256 at its end does not fit its bytes
    #[arg(long)]
    pub(super) skip_hash_check: bool,
}

pub(super) fn open(opened: &Opened) -> Result<DatabaseFile, Failure> {
    let mut shown = None;
    let progress = |bytes, total| {
        let progress = shown.get_or_insert_with(|| Progress::new("SHA-256", total));
        progress.advance(bytes);
    };
    let file = etcd_snapshot::open(&opened.file, opened.skip_hash_check, progress);
    file.map_err(|error| failure(&opened.file, error))
}

/// A failure that names the file once.
pub(super) fn failure(path: &Path, error: Error) -> Failure {
    match error {
        Error::File(_) | Error::Changed(_) | Error::Interrupted => Failure::failed(error, ""),
        error => Failure::failed(format_args!("{}: {error}", path.display()), ""),
    }
}
