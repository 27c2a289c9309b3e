//! The disk, as the log and the engine see it.
//!
//! ```text
//!   value-log, engine ──► dyn Disk ──► real::RealDisk       (rustix)
//!                                 └──► simulated::SimulatedDisk (a seed)
//! ```
//!
//! What a caller may rely on is written in `docs/assumptions.md`; the
//! simulated disk breaks everything that is not promised there.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading through the page cache.
    Read,
    /// An existing file, for reading what the device holds (`O_DIRECT` where
    /// the file system has it). Offsets, lengths and buffers need no
    /// alignment: the implementation bounces.
    ReadDevice,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
}

/// Room on the file system that holds a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes an unprivileged process may still use.
    pub available_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
}

/// Held as long as this process owns a directory; dropping it lets go.
pub trait DirectoryLock: Send + Sync + Debug {}

/// A file system.
pub trait Disk: Send + Sync + Debug + 'static {
    /// Creates `path` and its parents; fine when it exists. Durable on return.
    fn create_directories(&self, path: &Path) -> io::Result<()>;
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Renames within one directory, replacing `to`. Durable only after
    /// [`Disk::sync_directory`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; open handles keep it. Durable only after
    /// [`Disk::sync_directory`].
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Names of the files in a directory (not of directories), in no order.
    /// That a name is listed does not make it durable.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals in `directory` durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Takes the exclusive lock on a directory (a file `LOCK` in it, naming
    /// the holder's process id). `WouldBlock` when another process, or
    /// another part of this one, holds it; the message names the holder.
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>>;
    /// Room left where `directory` lives.
    fn space(&self, directory: &Path) -> io::Result<Space>;
}

/// An open file. All calls are positional: threads share one handle.
pub trait File: Send + Sync + Debug + 'static {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end
    /// of the file. Returns the number read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `parts`, one after the other, at `offset`, into the page
    /// cache: survives the process, not the machine.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;
    /// Writes all of `parts` at `offset` and returns when they are on stable
    /// storage: one system call, one device flush where the blocks have been
    /// written before. After an error nothing is known about the range, and
    /// the call must not be retried.
    fn write_durable_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;
    /// Makes all that was written to this file stable, and its size.
    fn sync_data(&self) -> io::Result<()>;
    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// From now on nobody cuts the file below the size that it has (with this handle that is an
    /// error), and much of it will be read in small pieces: those may then come without a
    /// system call.
    fn keep_size(&self);
    /// Cuts or extends the file (extended bytes read as zero).
    fn set_size(&self, size: u64) -> io::Result<()>;
}
