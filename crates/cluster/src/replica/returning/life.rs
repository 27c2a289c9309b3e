//! This life of a member, and what its directory remembers of the one before.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Durability;
use environment::Disk;

use crate::life_file::LifeFile;
use crate::{Error, ReplicaOptions};

/// One life.
#[derive(Debug)]
pub(in crate::replica) struct Life {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// The directory's opening: no other life has the same, and later ones have
    /// greater numbers.
    number: u64,
    /// Entries are acknowledged before they are flushed.
    cached: bool,
    boot: Option<String>,
    /// The file is there.
    is_noted: bool,
    lacks_its_end: bool,
}

impl Life {
    /// What the directory says of the life before this one, which has the `opening`th
    /// number. A closed log has lost nothing.
    pub fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: &ReplicaOptions,
        (opening, closed): (u32, bool),
    ) -> Result<Life, Error> {
        let found = LifeFile::find(&*disk, directory).map_err(|error| about(directory, &error))?;
        let cached = options.machine.engine.durability == Durability::Os;
        let same_boot = |file: &LifeFile| file.boot.is_some() && file.boot == options.boot;
        let lacks_its_end = match &found {
            None => cached && !closed && opening > 1,
            Some(None) => {
                tracing::warn!(
                    directory = %directory.display(),
                    "the file LIFE cannot be read: what was acknowledged last may be lost"
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

    /// What was acknowledged last may not be in the log.
    pub fn lacks_its_end(&self) -> bool {
        self.lacks_its_end
    }

    /// The state was rebuilt from what is left: more may have been acknowledged.
    pub fn doubt(&mut self) {
        self.lacks_its_end = true;
    }

    /// Before anything leaves in this life.
    pub fn begin(&mut self, whole: bool) -> Result<(), Error> {
        self.note(whole)
            .map_err(|error| about(&self.directory, &error))
    }

    /// Nothing is missing any more. Where that cannot be noted the next life returns
    /// once more.
    pub fn is_whole(&mut self) {
        if let Err(error) = self.note(true) {
            tracing::warn!(%error, "it cannot be noted that this member has come back");
        }
    }

    /// A flush has failed, and nobody knows what the device holds. As well as a device
    /// that fails can note anything.
    pub fn may_lack_its_end(&mut self) {
        if self.cached
            && let Err(error) = self.note(false)
        {
            tracing::warn!(%error, "it cannot be noted that entries may be lost");
        }
    }

    fn note(&mut self, whole: bool) -> io::Result<()> {
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

fn about(directory: &Path, error: &io::Error) -> Error {
    Error::Storage(format!("{}: {error}", directory.join("LIFE").display()))
}
