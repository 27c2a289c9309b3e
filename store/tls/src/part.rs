//! One part of the settings that is read from files, and read again when they change.
//!
//! A file may be read while it is written, and two files that belong together are never
//! replaced at the same moment. So a part that cannot be read again stays as it was, and is
//! tried again at the next handshake, or once in a second while its files stay the same.

use std::sync::Arc;
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Instant};
use tracing::{info, warn};

use crate::Error;
use crate::files::{NamedFile, Stamp};

/// Shortest time between two attempts to read files that could not be used and have not changed:
/// a crowd of handshakes would read them again and again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Part<T> {
    files: Vec<NamedFile>,
    load: fn(&[NamedFile]) -> Result<T, Error>,
    value: Arc<T>,
    /// State of the files from which `value` was read.
    stamps: Vec<Stamp>,
    /// The last attempt that failed, which was logged.
    failed: Option<Failed>,
}

#[derive(Debug)]
struct Failed {
    stamps: Vec<Stamp>,
    at: Instant,
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
            failed: None,
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
            failed: None,
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
        let now = RealClock.now();
        let known = self.failed.as_ref().filter(|it| it.stamps == stamps);
        if known.is_some_and(|it| now.saturating_since(it.at) < RETRY_EVERY) {
            return false;
        }
        match (self.load)(&self.files) {
            Ok(value) => {
                self.value = Arc::new(value);
                self.stamps = stamps;
                self.failed = None;
                info!(files = self.names(), "read TLS files");
                true
            }
            Err(error) => {
                if known.is_none() {
                    self.warn(&error);
                }
                self.failed = Some(Failed { stamps, at: now });
                false
            }
        }
    }

    fn warn(&self, error: &Error) {
        match self.stamps.is_empty() {
            true => warn!(
                %error,
                "a TLS file cannot be used and there is no earlier one: the other side's \
                 certificates are refused until a good file is written, which is read without a \
                 restart"
            ),
            false => warn!(
                %error,
                "a TLS file cannot be used; the last good one stays in force until a good file is \
                 written, which is read without a restart"
            ),
        }
    }

    /// The file that is named first.
    pub(crate) fn first_file(&self) -> &NamedFile {
        &self.files[0]
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
