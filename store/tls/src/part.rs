//! One part of the settings that is read from files, and read again when they change.
//!
//! A file may be read while it is written, and two files that belong together are never
//! replaced at the same moment. So a part that cannot be read again stays as it was, and is
//! tried again at the next handshake.

use std::sync::Arc;

use tracing::{info, warn};

use crate::Error;
use crate::files::{NamedFile, Stamp};

#[derive(Debug)]
pub(crate) struct Part<T> {
    files: Vec<NamedFile>,
    load: fn(&[NamedFile]) -> Result<T, Error>,
    value: Arc<T>,
    /// State of the files from which `value` was read.
    stamps: Vec<Stamp>,
    /// State of the files that could not be read and were logged.
    logged: Vec<Stamp>,
}

impl<T> Part<T> {
    /// Reads the files.
    pub(crate) fn load(
        files: Vec<NamedFile>,
        load: fn(&[NamedFile]) -> Result<T, Error>,
    ) -> Result<Part<T>, Error> {
        let stamps = stamps(&files);
        Ok(Part {
            value: Arc::new(load(&files)?),
            files,
            load,
            stamps,
            logged: Vec::new(),
        })
    }

    /// Reads the files, or begins with the default value and tries again at each handshake.
    pub(crate) fn load_or_wait(
        files: Vec<NamedFile>,
        load: fn(&[NamedFile]) -> Result<T, Error>,
    ) -> Part<T>
    where
        T: Default,
    {
        let mut part = Part {
            value: Arc::default(),
            files,
            load,
            stamps: Vec::new(),
            logged: Vec::new(),
        };
        part.refresh();
        part
    }

    pub(crate) fn value(&self) -> &Arc<T> {
        &self.value
    }

    /// Reads the files again if they have changed; true if there is a new value.
    pub(crate) fn refresh(&mut self) -> bool {
        // Before the files are read: a change during the reading is seen the next time.
        let stamps = stamps(&self.files);
        if stamps == self.stamps {
            return false;
        }
        match (self.load)(&self.files) {
            Ok(value) => {
                self.value = Arc::new(value);
                self.stamps = stamps;
                info!(files = self.names(), "read TLS files");
                true
            }
            Err(error) => {
                if self.logged != stamps {
                    warn!(%error, "a TLS file cannot be used; the last good one stays in force");
                    self.logged = stamps;
                }
                false
            }
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> = self
            .files
            .iter()
            .map(|file| file.path.display().to_string())
            .collect();
        names.join(",")
    }
}

fn stamps(files: &[NamedFile]) -> Vec<Stamp> {
    files.iter().map(NamedFile::stamp).collect()
}
