//! This life of a member, and what its directory says of the life before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Durability;
use environment::Disk;

use crate::identity_files::LifeFile;
use crate::{Error, ReplicaOptions};

/// This life of the member.
#[derive(Debug)]
pub(in crate::replica) struct Life {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// The number of the directory's opening. No other life has the same number, and later
    /// lives have greater ones.
    number: u64,
    /// Entries are acknowledged before they are flushed.
    cached: bool,
    boot: Option<String>,
    /// The file LIFE exists.
    is_noted: bool,
    lacks_its_end: bool,
}

impl Life {
    /// Reads what the directory says of the life before this one. `opening` is the number of
    /// this life; `closed` says that the last life closed its log, which then has lost
    /// nothing.
    pub fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: &ReplicaOptions,
        (opening, closed): (u32, bool),
    ) -> Result<Life, Error> {
        let found = LifeFile::find(&*disk, directory)?;
        let cached = options.machine.engine.durability == Durability::Os;
        let same_boot = |file: &LifeFile| file.boot.is_some() && file.boot == options.boot;
        let lacks_its_end = match &found {
            None => cached && !closed && opening > 1,
            Some(None) => {
                tracing::warn!(
                    directory = %directory.display(),
                    "the file LIFE cannot be read: the last entries that this member acknowledged \
                     may be lost"
                );
                true
            }
            Some(Some(file)) => !file.whole || (file.cached && !closed && !same_boot(file)),
        };
        Ok(Life {
            disk,
            directory: directory.to_path_buf(),
            number: u64::from(opening),
            cached,
            boot: options.boot.clone(),
            is_noted: found.is_some(),
            lacks_its_end,
        })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the last entries that this member acknowledged may be missing in the log.
    pub fn lacks_its_end(&self) -> bool {
        self.lacks_its_end
    }

    /// Notes that the state was rebuilt from what is left, and acknowledged entries may be
    /// missing.
    pub fn doubt(&mut self) {
        self.lacks_its_end = true;
    }

    /// Records the state at the start of this life; must precede its first message.
    pub fn begin(&mut self, whole: bool) -> Result<(), Error> {
        self.note(whole)
    }

    /// Records that nothing is missing any more. If that fails, the next life has to return
    /// again.
    pub fn is_whole(&mut self) {
        if let Err(error) = self.note(true) {
            tracing::warn!(%error, "the file LIFE cannot record that this member has returned");
        }
    }

    /// Records that a flush has failed, so that the state of the device is unknown. The record
    /// may fail too, as it is on the same device.
    pub fn may_lack_its_end(&mut self) {
        if self.cached
            && let Err(error) = self.note(false)
        {
            tracing::warn!(%error, "the file LIFE cannot record that entries may be lost");
        }
    }

    fn note(&mut self, whole: bool) -> Result<(), Error> {
        if whole && !self.cached {
            if std::mem::take(&mut self.is_noted) {
                LifeFile::remove(&*self.disk, &self.directory)?;
            }
            return Ok(());
        }
        self.is_noted = true;
        let file = LifeFile {
            cached: self.cached,
            whole,
            boot: self.boot.clone(),
        };
        file.keep(&*self.disk, &self.directory)
    }
}
