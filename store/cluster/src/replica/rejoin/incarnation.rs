//! This incarnation of a member, and what its directory says of the one before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Durability, Recovered};
use environment::Disk;

use crate::Error;
use crate::identity_files::LifeFile;
use crate::replica::options::ReplicaOptions;

/// This incarnation of the member, from its start to its end.
#[derive(Debug)]
pub(crate) struct Incarnation {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// The number of the directory's opening. No other incarnation has the same number, and
    /// later ones have greater numbers.
    pub number: u64,
    /// Entries are acknowledged before they are flushed.
    cached: bool,
    boot: Option<String>,
    /// The file LIFE exists.
    is_noted: bool,
    /// The last entries that this member acknowledged may be missing in the log, or the state
    /// was rebuilt from what is left.
    pub has_lost_tail: bool,
}

impl Incarnation {
    /// Reads what the directory says of the incarnation before this one.
    pub fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: &ReplicaOptions,
        recovered: &Recovered,
    ) -> Result<Incarnation, Error> {
        let found = LifeFile::find(&*disk, directory)?;
        let cached = options.machine.engine.log.durability == Durability::Os;
        let same_boot = |file: &LifeFile| file.boot.is_some() && file.boot == options.boot;
        let has_lost_tail = match &found {
            None => cached && !recovered.clean && recovered.opening > 1,
            Some(None) => {
                tracing::warn!(
                    directory = %directory.display(),
                    "the file LIFE cannot be read: the last entries that this member acknowledged \
                     may be lost"
                );
                true
            }
            Some(Some(file)) => {
                !file.whole || (file.cached && !recovered.clean && !same_boot(file))
            }
        };
        Ok(Incarnation {
            disk,
            directory: directory.to_path_buf(),
            number: u64::from(recovered.opening),
            cached,
            boot: options.boot.clone(),
            is_noted: found.is_some(),
            has_lost_tail: has_lost_tail || recovered.rebuilt,
        })
    }

    /// Records that nothing is missing any more. If that fails, the next incarnation has to
    /// rejoin again.
    pub fn record_whole(&mut self) {
        if let Err(error) = self.note(true) {
            tracing::warn!(%error, "the file LIFE cannot record that this member has returned");
        }
    }

    /// Records that a flush has failed, so that the state of the device is unknown. The record
    /// may fail too, as it is on the same device.
    pub fn record_failed_flush(&mut self) {
        if self.cached
            && let Err(error) = self.note(false)
        {
            tracing::warn!(%error, "the file LIFE cannot record that entries may be lost");
        }
    }

    /// Records the state; at the start of this incarnation before its first message.
    pub fn note(&mut self, whole: bool) -> Result<(), Error> {
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
