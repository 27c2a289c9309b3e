//! Faults short of a crash, and the error that a crash gives.

use std::io;
use std::path::Path;

use crate::path_error::on_path;

/// Every call on a crashed disk fails with this kind. Linux gives it for a FUSE
/// file system after its process died; a healthy disk never does.
pub const CRASHED: io::ErrorKind = io::ErrorKind::NotConnected;

/// Whether an error means that the simulated machine is down.
pub fn is_crash(error: &io::Error) -> bool {
    error.kind() == CRASHED
}

/// A failure to come. It strikes once, at the first I/O it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The next `sync_data`, `write_durable_at` or `sync_directory` fails with
    /// EIO. As on Linux a file's pages are then clean: the kernel does not write
    /// them again, and a repeated sync succeeds without having done anything. Each
    /// block that was under way may have arrived or not. A directory's
    /// failure is one of the journal: the file system goes read-only until
    /// the machine restarts.
    FailedFlush,
    /// The next flush of a kind that `FailedFlush` could strike succeeds
    /// and does nothing: a device that breaks its promise. No log survives
    /// this; it is here to show that a checker notices.
    IgnoredFlush,
    /// The next write stops after this many bytes with EIO.
    ShortWrite {
        /// Bytes that still reach the page cache.
        bytes: u64,
    },
}

impl Fault {
    /// Whether it can strike a call that does these things.
    pub(super) fn strikes(self, writes: bool, flushes: bool) -> bool {
        match self {
            Fault::FailedFlush | Fault::IgnoredFlush => flushes,
            Fault::ShortWrite { .. } => writes,
        }
    }
}

/// EIO with the path it is about.
pub(super) fn input_output_error(what: &'static str, path: &Path) -> io::Error {
    on_path(what, path, rustix::io::Errno::IO)
}

/// The answer to every call after a crash.
pub(super) fn crash_error() -> io::Error {
    io::Error::new(CRASHED, "the simulated machine has crashed")
}
