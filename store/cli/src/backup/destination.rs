//! Places from URLs.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use backup::BackupPlace;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

use crate::failure::Failure;

/// The place of a URL, for reading.
pub(super) fn open(url: &str) -> Result<BackupPlace, Failure> {
    match folder_of(url) {
        None => super::cloud::open(url),
        Some(folder) if folder.is_dir() => local(&folder),
        Some(folder) => Err(Failure::wrong_use(
            format_args!("{} is no folder", folder.display()),
            "Name the folder that `backup run --to` was given, or the URL of an object store.",
        )),
    }
}

/// The place of a URL, for writing: a folder is made if there is none.
#[expect(clippy::disallowed_methods, reason = "a folder that an operator names")]
pub(super) fn create(url: &str) -> Result<BackupPlace, Failure> {
    let Some(folder) = folder_of(url) else {
        return super::cloud::open(url);
    };
    let created = std::fs::create_dir_all(&folder);
    created.map_err(|error| {
        Failure::failed(
            format_args!("cannot make the folder {}: {error}", folder.display()),
            "Name a folder that this user may write.",
        )
    })?;
    local(&folder)
}

/// The folder of a path or of a file:// URL; `None` for other URLs.
fn folder_of(url: &str) -> Option<PathBuf> {
    match url.split_once("://") {
        None => Some(url.into()),
        Some(("file", path)) => Some(path.into()),
        Some(_) => None,
    }
}

fn local(folder: &FilePath) -> Result<BackupPlace, Failure> {
    let store = LocalFileSystem::new_with_prefix(folder);
    let store = store.map_err(|error| Failure::wrong_use(error, ""))?;
    // What is reported as stored survives a loss of power.
    let store: Arc<dyn ObjectStore> = Arc::new(store.with_fsync(true));
    Ok(BackupPlace::new(store, Path::default()))
}
