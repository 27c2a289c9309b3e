//! The file system interface of the log and the engine.
//!
//! ```text
//!   value-log, engine ──► dyn Disk ──► real::RealDisk       (rustix)
//!                                 └──► simulated::SimulatedDisk (a seed)
//! ```
//!
//! `docs/assumptions.md` states what a caller may rely on; the simulated disk breaks everything
//! that is not promised there.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading through the page cache.
    Read,
    /// An existing file, for reading what the device holds (`O_DIRECT` where the file system has
    /// it). Offsets, lengths and buffers need no alignment: the implementation reads through an
    /// aligned buffer.
    ReadDevice,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
}

/// Free and total size of the file system that holds a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that an unprivileged process may still use.
    pub available_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
}

/// The lock on a directory that this process owns; dropping it releases the lock.
pub trait DirectoryLock: Send + Sync + Debug {}

/// A file system.
pub trait Disk: Send + Sync + Debug + 'static {
    /// Creates `path` and its parents; succeeds if it exists already. The directories are durable
    /// on return.
    fn create_directories(&self, path: &Path) -> io::Result<()>;
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Renames within one directory, replacing `to`. Durable only after
    /// [`Disk::sync_directory`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; the file exists until its last handle is closed. Durable only after
    /// [`Disk::sync_directory`].
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists the names of the files in a directory (not those of directories), in no order. A
    /// listed name need not be durable.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals in `directory` durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Takes the exclusive lock on a directory (a file `LOCK` in it, naming
    /// the holder's process id). `WouldBlock` when another process, or
    /// another part of this one, holds it; the message names the holder.
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>>;
    /// Returns the free space of the file system that holds `directory`.
    fn space(&self, directory: &Path) -> io::Result<Space>;
}

/// Bytes of a file, where the system has them in memory: they change when the file does.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'f> {
    start: NonNull<u8>,
    bytes: usize,
    file: PhantomData<&'f dyn File>,
}

impl<'f> Lent<'f> {
    /// # Safety
    /// `bytes` from `start` on can be read for as long as the file lives.
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Lent<'f> {
        Lent {
            start,
            bytes,
            file: PhantomData,
        }
    }

    /// The bytes, without a copy.
    ///
    /// # Safety
    /// Nothing overwrites them in the file while the result is alive.
    pub unsafe fn bytes(self) -> &'f [u8] {
        // SAFETY: they can be read, and the caller promises that they stay as they are.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

/// An open file. All calls are positional: threads share one handle.
pub trait File: Send + Sync + Debug + 'static {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end
    /// of the file. Returns the number read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `parts`, one after the other, at `offset`, into the page cache: the bytes
    /// survive the end of the process, but no loss of power.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;
    /// Writes all of `parts` at `offset` and returns when they are on stable
    /// storage: one system call, one device flush where the blocks have been written before.
    /// After an error the content of the range is unknown, and the call must not be retried.
    fn write_durable_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;
    /// Makes all bytes that were written to this file, and its size, durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Room that the file takes: of its blocks, those included that were only reserved, and perhaps of some
    /// with which the file system finds them.
    fn allocated_bytes(&self) -> io::Result<u64>;
    /// Promises that the file is never cut below its present size from now on, and hints that
    /// much of it will be read in small pieces, which may then need no system call. A cut below
    /// that size through this handle fails; the caller must see to it that none happens in
    /// another way.
    fn keep_size(&self);
    /// False if a read of these bytes would wait for the device; true where the system does not say.
    fn is_cached(&self, _offset: u64, _bytes: u64) -> bool {
        true
    }
    /// Announces a read: a hint, in order that the device may read these bytes beside others. Does
    /// not wait for them.
    fn announce(&self, _offset: u64, _bytes: u64) {}
    /// Hints that these bytes, which are cached, will be read at once, in order that the processor may
    /// fetch them beside others.
    fn prefetch(&self, _offset: u64, _bytes: usize) {}
    /// Where the system has these bytes in memory. `None` where it does not, or where they must be
    /// read first, with [`File::read_at`].
    fn lend(&self, _offset: u64, _bytes: usize) -> Option<Lent<'_>> {
        None
    }
    /// Cuts or extends the file; the new bytes of an extended file read as zero.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Extends the file to `size` bytes, which read as zero, and takes room for all of them, so
    /// that no later write below `size` meets a full disk. Nothing is written: the first durable
    /// write to a block costs a journal commit. A file that is as long or longer keeps its size.
    /// `Unsupported` where the file system cannot do this; then nothing has changed.
    fn reserve(&self, size: u64) -> io::Result<()>;
}
