//! One owner per data directory.
//!
//! `flock` on a file `LOCK`: the kernel releases it when the owner dies, however
//! it dies, so there is no stale lock to clear. The lock belongs to the open
//! file, not to the process, so a second open in the same process is refused
//! too. The process id inside is only for the message.
//!
//! The lock comes with a descriptor of the directory itself. Syncing the directory takes
//! one, and a log that cannot make a name durable for want of a descriptor would have to end.

use crate::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::open::open_with;
use crate::disk::DirectoryLock;
use crate::path_error::on_path;

/// The file that carries the lock, in the directory it guards.
const LOCK_FILE: &str = "LOCK";

/// Directories that this process has locked, and a descriptor of each.
static HELD: Mutex<Vec<(PathBuf, Arc<OwnedFd>)>> = Mutex::new(Vec::new());

/// A descriptor of a directory that is locked under this path.
pub(super) fn held_directory(directory: &Path) -> Option<Arc<OwnedFd>> {
    let held = HELD.lock();
    let found = held.iter().find(|(path, _)| path == directory);
    found.map(|(_, descriptor)| Arc::clone(descriptor))
}

/// Holds the lock; dropping it releases the lock.
#[derive(Debug)]
pub(super) struct HeldLock {
    descriptor: OwnedFd,
    directory: Arc<OwnedFd>,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        HELD.lock()
            .retain(|(_, it)| !Arc::ptr_eq(it, &self.directory));
        // Closing alone is not enough if a child of this process has not reached its exec
        // yet: it holds the file open too.
        let _ = rustix::fs::flock(&self.descriptor, FlockOperation::Unlock);
    }
}

impl DirectoryLock for HeldLock {}

/// Takes the lock; the error names the process that has it.
pub(super) fn take_lock(directory: &Path) -> io::Result<HeldLock> {
    let path = directory.join(LOCK_FILE);
    let named = |error: Errno| on_path("lock", &path, error);
    let descriptor = open_with(&path, OFlags::RDWR | OFlags::CREATE).map_err(named)?;
    match rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(held_by_other(directory, &descriptor)),
        Err(error) => return Err(named(error)),
    }
    write_owner(&descriptor).map_err(named)?;
    let opened = open_with(directory, OFlags::RDONLY | OFlags::DIRECTORY);
    let opened = Arc::new(opened.map_err(|error| on_path("open", directory, error))?);
    HELD.lock()
        .push((directory.to_path_buf(), Arc::clone(&opened)));
    Ok(HeldLock {
        descriptor,
        directory: opened,
    })
}

fn write_owner(descriptor: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::ftruncate(descriptor, 0)?;
    let owner = format!("{}\n", std::process::id());
    rustix::io::pwrite(descriptor, owner.as_bytes(), 0).map(|_| ())
}

fn held_by_other(directory: &Path, descriptor: &OwnedFd) -> io::Error {
    let mut buffer = [0; 20];
    let read = rustix::io::pread(descriptor, &mut buffer, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&buffer[..read]);
    let owner = text.trim();
    let holder = match owner {
        "" => "another process".to_owned(),
        id if id == std::process::id().to_string() => format!("this process ({id})"),
        id => format!("process {id}"),
    };
    let message = format!(
        "directory {} is in use by {holder}; stop that one first or choose another directory",
        directory.display()
    );
    io::Error::new(io::ErrorKind::WouldBlock, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_in_this_process_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let held = take_lock(directory.path()).unwrap();
        let error = take_lock(directory.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(
            error.to_string().contains(&std::process::id().to_string()),
            "{error}"
        );
        drop(held);
        take_lock(directory.path()).unwrap();
    }

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_a_lock_that_was_released() {
        let directory = tempfile::tempdir().unwrap();
        let held = take_lock(directory.path()).unwrap();
        let _copy = held.descriptor.try_clone().unwrap();
        drop(held);
        take_lock(directory.path()).unwrap();
    }

    #[test]
    fn a_locked_directory_has_a_descriptor_until_it_is_unlocked() {
        let directory = tempfile::tempdir().unwrap();
        assert!(held_directory(directory.path()).is_none());
        let held = take_lock(directory.path()).unwrap();
        assert!(take_lock(directory.path()).is_err());
        let kept = held_directory(directory.path()).expect("it is locked");
        rustix::fs::fsync(kept).unwrap();
        drop(held);
        assert!(held_directory(directory.path()).is_none());
    }

    #[test]
    fn a_message_about_another_process_names_its_id() {
        let directory = tempfile::tempdir().unwrap();
        let _held = take_lock(directory.path()).unwrap();
        let path = directory.path().join(LOCK_FILE);
        let descriptor = open_with(&path, OFlags::RDWR).unwrap();
        rustix::fs::ftruncate(&descriptor, 0).unwrap();
        rustix::io::pwrite(&descriptor, b"4711\n", 0).unwrap();
        let error = take_lock(directory.path()).unwrap_err();
        assert!(error.to_string().contains("process 4711;"), "{error}");
    }
}
