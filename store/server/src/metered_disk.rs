//! A disk that measures the time of its flushes.
//!
//! The figure that every operator of etcd looks at first is how long the log's
//! flush takes. It is measured here, around the one call that flushes a
//! group, so that no crate below needs a clock for it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use environment::disk::DirectoryLock;
use environment::{Clock, Disk, File, Lent, OpenMode, Space};

use crate::metrics::Histogram;

/// A disk with a histogram of the times of its durable writes.
#[derive(Clone, Debug)]
pub(crate) struct MeteredDisk {
    pub(crate) inner: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Times of durable writes.
    pub(crate) flushes: Arc<Histogram>,
}

impl Disk for MeteredDisk {
    fn create_directories(&self, path: &Path) -> io::Result<()> {
        self.inner.create_directories(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, mode)?;
        Ok(match mode {
            OpenMode::Read | OpenMode::ReadDevice => inner,
            OpenMode::ReadWrite | OpenMode::CreateNew => Arc::new(MeteredFile {
                inner,
                disk: self.clone(),
            }),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.inner.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner.sync_directory(directory)
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock_directory(directory)
    }

    fn space(&self, directory: &Path) -> io::Result<Space> {
        self.inner.space(directory)
    }
}

/// A file that is written to.
#[derive(Debug)]
struct MeteredFile {
    inner: Arc<dyn File>,
    disk: MeteredDisk,
}

impl File for MeteredFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.inner.write_at(parts, offset)
    }

    fn write_durable_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let began = self.disk.clock.now();
        let outcome = self.inner.write_durable_at(parts, offset);
        let took = self.disk.clock.now().saturating_since(began);
        self.disk.flushes.observe(took);
        outcome
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.inner.allocated_bytes()
    }

    fn keep_size(&self) {
        self.inner.keep_size();
    }

    fn is_cached(&self, offset: u64, bytes: u64) -> bool {
        self.inner.is_cached(offset, bytes)
    }

    fn announce(&self, offset: u64, bytes: u64) {
        self.inner.announce(offset, bytes);
    }

    fn prefetch(&self, offset: u64, bytes: usize) {
        self.inner.prefetch(offset, bytes);
    }

    fn lend(&self, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        self.inner.lend(offset, bytes)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.inner.set_size(size)
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        self.inner.reserve(size)
    }
}
