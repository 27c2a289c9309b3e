//! From opening to closing: whether this opening still has the directory, and whether
//! background work should end.
//!
//! `closed` is set before the directory is unlocked, so a read that finds the engine open after
//! its bytes came from the disk has read what this opening wrote.

use crate::Error;
use environment::{DirectoryLock, Mutex};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Lifecycle {
    directory: PathBuf,
    closed: AtomicBool,
    /// The applier is closed or dropped.
    stopping: AtomicBool,
    /// A snapshot replaces the state that background work is about.
    replacing: AtomicBool,
    /// The directory's lock; `None` once the engine is closed.
    lock: Mutex<Option<Arc<dyn DirectoryLock>>>,
}

impl Lifecycle {
    pub(crate) fn new(directory: PathBuf, lock: Box<dyn DirectoryLock>) -> Lifecycle {
        Lifecycle {
            directory,
            closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            replacing: AtomicBool::new(false),
            lock: Mutex::new(Some(lock.into())),
        }
    }

    /// Fails once the engine is closed. Called after bytes were read from the log, because
    /// another opening may have changed them if the engine was closed during the read.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(self.closed_error());
        }
        Ok(())
    }

    pub(crate) fn closed_error(&self) -> Error {
        Error::Closed {
            directory: self.directory.clone(),
        }
    }

    /// Whether background work should end without a result.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.replacing.load(Ordering::Relaxed)
    }

    /// Cancels background work for good.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Cancels background work until `wait` returns, which waits for it.
    pub(crate) fn cancel_during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.replacing.store(true, Ordering::Relaxed);
        let outcome = wait();
        self.replacing.store(false, Ordering::Relaxed);
        outcome
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Keeps the directory locked, also if the engine is closed, until the result is dropped: so no
    /// other opening changes what is looked at. Fails once the engine is closed.
    pub(crate) fn hold_directory(&self) -> Result<Arc<dyn DirectoryLock>, Error> {
        let lock = self.lock.lock().clone();
        self.check_open()?;
        lock.ok_or_else(|| self.closed_error())
    }

    /// Unlocks the directory of a closed engine, when nothing holds it.
    pub(crate) fn unlock(&self) {
        drop(self.lock.lock().take());
    }
}
