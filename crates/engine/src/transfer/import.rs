//! The receiver's side.

use crate::{Engine, Error, SnapshotInfo};
use bytes::Bytes;
use std::sync::Arc;

/// Runs on the import's thread after each piece, at the end and on failure. It
/// must be quick and must not call back.
pub type ImportNotice = Box<dyn Fn() + Send + Sync>;

/// A snapshot that is being received. One at a time; dropped, it leaves nothing
/// behind.
#[derive(Debug)]
pub struct Import {
    #[expect(dead_code, reason = "where the pieces go")]
    engine: Engine,
    info: Option<SnapshotInfo>,
    wanted: u64,
}

/// How far an import has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Pieces written.
    pub written: u64,
    /// Bytes of pieces that wait to be written.
    pub queued_bytes: u64,
    /// All is written and on stable storage: it can be installed.
    pub complete: bool,
}

impl Engine {
    /// Begins to receive a snapshot. With [`crate::Worker::Caller`] there is no
    /// thread: [`Import::offer`] does the work, and the notice is never run.
    pub fn import(&self, notice: ImportNotice) -> Result<Import, Error> {
        drop(notice);
        Ok(Import {
            engine: self.clone(),
            info: None,
            wanted: 0,
        })
    }
}

impl Import {
    /// Takes the next piece. A piece that is damaged, of another snapshot or not
    /// the one that is wanted is refused, and nothing has changed: go on with
    /// the one that is. What is wrong with its contents, or with the disk, shows
    /// in [`Import::progress`].
    pub fn offer(&mut self, piece: Bytes) -> Result<(), Error> {
        drop(piece);
        Err(Error::ImportIncomplete)
    }

    /// Number of the piece to be offered next.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// What it is a snapshot of, once the first piece was offered.
    pub fn info(&self) -> Option<SnapshotInfo> {
        self.info
    }

    /// How far it is; an error when it has failed and can only be dropped. The
    /// member is as it was.
    pub fn progress(&self) -> Result<ImportProgress, Arc<Error>> {
        Ok(ImportProgress::default())
    }
}
