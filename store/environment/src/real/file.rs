//! A file behind the page cache, and the one system call that a durable write costs.
//!
//! ```text
//!   write_at          pwritev                       survives the end of the process
//!   write_durable_at  pwritev2(.., RWF_DSYNC)       survives a loss of power
//!                     pwritev + fdatasync           where that is refused
//! ```
//!
//! `RWF_DSYNC` costs the device one write and one flush when the blocks have
//! been written before; on a hole or past the end the file system adds a
//! journal commit. It also reports the error of *this* write, where `fdatasync` reports any
//! failure of the file since the last report.

use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::mapping::Mapping;
use super::open::{allocated_bytes, open_with};
use crate::disk::{File, Lent, OpenMode};
use crate::path_error::on_path;

/// A file read and written through the page cache.
#[derive(Debug)]
pub(super) struct CachedFile {
    descriptor: OwnedFd,
    /// Path at which the file was opened; for messages only.
    path: PathBuf,
    /// The file system refused `RWF_DSYNC`. Once set it stays set. A refusal comes before any
    /// byte is written, so the write can be done again in the other way.
    without_dsync: AtomicBool,
    /// Set by [`File::keep_size`]; `None` within if the kernel refused the mapping.
    mapping: OnceLock<Option<Mapping>>,
}

/// Linux reads no more for one announcement, unless a device has been set to more.
const ANNOUNCED_BYTES_MAX: usize = 128 << 10;
/// Beginnings of announcements are multiples of this, so that none touches one page more.
const PAGE_BYTES: u64 = 4 << 10;
/// Linux takes this many parts in one call (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

impl CachedFile {
    fn is_byte_cached(&self, offset: u64) -> bool {
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = ReadWriteFlags::NOWAIT;
        let read =
            retry_on_intr(|| rustix::io::preadv2(&self.descriptor, &mut parts, offset, flags));
        read != Err(Errno::AGAIN)
    }

    pub(super) fn open(path: &Path, mode: OpenMode) -> io::Result<CachedFile> {
        let (what, flags) = match mode {
            OpenMode::Read | OpenMode::ReadDevice => ("open", OFlags::RDONLY),
            OpenMode::ReadWrite => ("open for writing", OFlags::RDWR),
            OpenMode::CreateNew => ("create", OFlags::RDWR | OFlags::CREATE | OFlags::EXCL),
        };
        let descriptor = open_with(path, flags).map_err(|error| on_path(what, path, error))?;
        // Records are read one by one in random order: read-ahead would multiply the bytes read.
        // This is only advice, so a refusal does no harm.
        let _ = rustix::fs::fadvise(&descriptor, 0, None, Advice::Random);
        Ok(CachedFile {
            descriptor,
            path: path.to_path_buf(),
            without_dsync: AtomicBool::new(false),
            mapping: OnceLock::new(),
        })
    }

    /// Writes all of `parts`, each system call with `flags`; the remainder of a short write goes
    /// into another call.
    fn write_all(
        &self,
        parts: &[&[u8]],
        offset: u64,
        flags: ReadWriteFlags,
    ) -> rustix::io::Result<()> {
        if parts.len() > PARTS_MAX {
            return self.write_all(&[&parts.concat()], offset, flags);
        }
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let (mut rest, mut at) = (&mut slices[..], offset);
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let written =
                retry_on_intr(|| rustix::io::pwritev2(&self.descriptor, rest, at, flags))?;
            if written == 0 {
                return Err(Errno::IO);
            }
            at += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    /// Writes one part without flags. `pwrite` needs no list of parts, which the kernel would
    /// have to copy.
    fn write_one(&self, mut part: &[u8], mut offset: u64) -> rustix::io::Result<()> {
        while !part.is_empty() {
            let written = retry_on_intr(|| rustix::io::pwrite(&self.descriptor, part, offset))?;
            if written == 0 {
                return Err(Errno::IO);
            }
            part = &part[written..];
            offset += written as u64;
        }
        Ok(())
    }

    fn write_durable(&self, parts: &[&[u8]], offset: u64) -> rustix::io::Result<()> {
        if !self.without_dsync.load(Ordering::Relaxed) {
            match self.write_all(parts, offset, ReadWriteFlags::DSYNC) {
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                    self.without_dsync.store(true, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        self.write_all(parts, offset, ReadWriteFlags::empty())?;
        retry_on_intr(|| rustix::fs::fdatasync(&self.descriptor))
    }

    fn mapping(&self) -> Option<&Mapping> {
        self.mapping.get()?.as_ref()
    }

    fn named(&self, what: &'static str) -> impl FnOnce(Errno) -> io::Error {
        move |error| on_path(what, &self.path, error)
    }
}

impl File for CachedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mapping = self.mapping();
        if mapping.is_some_and(|it| it.read(buffer, offset)) {
            return Ok(buffer.len());
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let read =
                retry_on_intr(|| rustix::io::pread(&self.descriptor, &mut buffer[filled..], at))
                    .map_err(self.named("read"))?;
            if read == 0 {
                break;
            }
            filled += read;
        }
        if let Some(mapping) = mapping {
            mapping.note_read(offset, filled);
        }
        Ok(filled)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let written = match parts {
            [part] => self.write_one(part, offset),
            parts => self.write_all(parts, offset, ReadWriteFlags::empty()),
        };
        written.map_err(self.named("write"))
    }

    fn write_durable_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.write_durable(parts, offset)
            .map_err(self.named("write durably to"))
    }

    fn sync_data(&self) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.descriptor)).map_err(self.named("sync"))
    }

    fn size(&self) -> io::Result<u64> {
        let status = rustix::fs::fstat(&self.descriptor).map_err(self.named("ask the size of"))?;
        Ok(u64::try_from(status.st_size).expect("the kernel gives no negative size"))
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        allocated_bytes(&self.descriptor).map_err(self.named("ask the blocks of"))
    }

    fn keep_size(&self) {
        self.mapping.get_or_init(|| {
            let bytes = usize::try_from(self.size().ok()?).ok()?;
            Mapping::of(self.descriptor.as_fd(), bytes)
        });
    }

    fn is_cached(&self, offset: u64, bytes: u64) -> bool {
        let mapped = self.mapping().and_then(|it| it.is_cached(offset, bytes));
        mapped.unwrap_or_else(|| {
            let last = offset.saturating_add(bytes.saturating_sub(1));
            self.is_byte_cached(offset) && self.is_byte_cached(last)
        })
    }

    fn announce(&self, offset: u64, bytes: u64) {
        for (at, bytes) in announced_pieces(offset, bytes) {
            // This is only advice, so a refusal does no harm.
            let length = NonZeroU64::new(bytes);
            let _ = rustix::fs::fadvise(&self.descriptor, at, length, Advice::WillNeed);
        }
    }

    fn prefetch(&self, offset: u64, bytes: usize) {
        if let Some(mapping) = self.mapping() {
            mapping.prefetch(offset, bytes);
        }
    }

    fn lend(&self, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        self.mapping()?.lend(offset, bytes)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        if self.mapping().is_some_and(|it| size < it.bytes() as u64) {
            return Err(on_path("cut", &self.path, Errno::BUSY));
        }
        retry_on_intr(|| rustix::fs::ftruncate(&self.descriptor, size))
            .map_err(self.named("set the size of"))
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        if size == 0 {
            return Ok(());
        }
        let mode = FallocateFlags::empty();
        match retry_on_intr(|| rustix::fs::fallocate(&self.descriptor, mode, 0, size)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                let unsupported = io::Error::from(io::ErrorKind::Unsupported);
                Err(on_path("reserve room for", &self.path, unsupported))
            }
            answer => answer.map_err(self.named("reserve room for")),
        }
    }
}

/// Offset and bytes of the announcements for one read.
fn announced_pieces(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let (start, end) = (
        offset / PAGE_BYTES * PAGE_BYTES,
        offset.saturating_add(bytes),
    );
    let piece = move |at: u64| (at, (end - at).min(ANNOUNCED_BYTES_MAX as u64));
    (start..end).step_by(ANNOUNCED_BYTES_MAX).map(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_announced_in_pieces_that_the_system_takes_whole() {
        let pieces = |offset, bytes| announced_pieces(offset, bytes).collect::<Vec<_>>();
        assert_eq!(pieces(4_096, 100), [(4_096, 100)]);
        assert_eq!(pieces(5_000, 100), [(4_096, 1_004)]);
        let (first, second) = (8_192, 8_192 + (128 << 10));
        assert_eq!(pieces(8_200, 128 << 10), [(first, 128 << 10), (second, 8)]);
        assert_eq!(pieces(u64::MAX - 10, 100).len(), 1);
    }

    fn new_file(directory: &tempfile::TempDir) -> CachedFile {
        CachedFile::open(&directory.path().join("file"), OpenMode::CreateNew).unwrap()
    }

    #[test]
    fn a_durable_write_succeeds_when_dsync_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = new_file(&directory);
        file.without_dsync.store(true, Ordering::Relaxed);
        file.write_durable_at(&[b"ab", b"", b"cd"], 3).unwrap();
        let mut buffer = [9; 7];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 7);
        assert_eq!(&buffer, b"\0\0\0abcd");
    }

    #[test]
    fn parts_beyond_the_limit_of_one_call_are_written_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let file = new_file(&directory);
        let bytes: Vec<u8> = (0..3_000_u32).map(|at| (at % 251) as u8).collect();
        let parts: Vec<&[u8]> = bytes.chunks(1).collect();
        assert!(parts.len() > PARTS_MAX);
        file.write_durable_at(&parts, 0).unwrap();
        let mut buffer = vec![0; bytes.len()];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), bytes.len());
        assert_eq!(buffer, bytes);
    }

    #[test]
    fn what_was_just_written_is_cached_and_hints_about_any_place_do_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let file = new_file(&directory);
        file.write_at(&[&[1; 5_000]], 0).unwrap();
        for keeps_size in [false, true] {
            assert!(file.is_cached(0, 5_000) && file.is_cached(4_999, 1));
            for (offset, bytes) in [(0, 5_000), (4_990, 100), (1 << 40, 1), (0, 0)] {
                file.is_cached(offset, bytes as u64);
                file.announce(offset, bytes as u64);
                file.prefetch(offset, bytes);
            }
            if !keeps_size {
                file.keep_size();
            }
        }
        let mut buffer = [0; 5_000];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 5_000);
        file.prefetch(0, 5_000);
        assert_eq!(buffer, [1; 5_000]);
    }

    #[test]
    fn of_a_file_that_keeps_its_size_all_pages_are_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = new_file(&directory);
        file.write_at(&[&[1; 4_096]], 0).unwrap();
        file.write_at(&[&[1; 4_096]], 2 * 4_096).unwrap();
        file.keep_size();
        // The page between them was never in memory.
        assert!(!file.is_cached(0, 3 * 4_096));
        assert!(file.is_cached(0, 4_096) && file.is_cached(2 * 4_096, 4_096));
    }

    #[test]
    fn a_file_that_keeps_its_size_is_read_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let file = new_file(&directory);
        file.write_at(&[&[1; 5_000]], 0).unwrap();
        file.keep_size();
        file.write_at(&[&[2; 5_000]], 5_000).unwrap();
        for byte in [3, 4] {
            file.write_durable_at(&[&[byte; 10]], 4_090).unwrap();
            for _ in 0..3 {
                let mut buffer = [0; 20];
                assert_eq!(file.read_at(&mut buffer, 4_085).unwrap(), 20);
                assert_eq!(buffer[..5], [1; 5]);
                assert_eq!(buffer[5..15], [byte; 10]);
                assert_eq!(file.read_at(&mut buffer, 4_990).unwrap(), 20);
                assert_eq!(
                    (buffer[9], buffer[10]),
                    (1, 2),
                    "the last byte of the kept size, and the first beyond it"
                );
                assert_eq!(file.read_at(&mut buffer, 9_990).unwrap(), 10);
            }
        }
    }

    #[test]
    fn a_page_is_read_from_the_mapping_after_its_first_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = new_file(&directory);
        file.write_at(&[&[1; 5_000]], 0).unwrap();
        file.keep_size();
        let (mapping, mut buffer) = (file.mapping().unwrap(), [0; 20]);
        assert!(!mapping.read(&mut buffer, 4_500));
        file.read_at(&mut buffer, 4_500).unwrap();
        assert!(mapping.read(&mut buffer, 4_500));
        assert!(!mapping.read(&mut buffer, 0), "this page was not read");
    }

    #[test]
    fn a_write_that_the_kernel_refuses_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        drop(new_file(&directory));
        let reader = CachedFile::open(&directory.path().join("file"), OpenMode::Read).unwrap();
        let message = reader.write_at(&[b"x"], 0).unwrap_err().to_string();
        assert!(
            message.contains(directory.path().to_str().unwrap()),
            "{message}"
        );
    }
}
