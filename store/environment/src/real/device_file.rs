//! A file that is read from the device, not from the page cache.
//!
//! After a failed flush the kernel marks pages clean that never reached the device: the cache
//! then shows bytes that are lost after the next boot. So recovery reads the tail of the log from
//! the device.
//!
//! ```text
//!   wanted            [ offset .. offset + length )
//!   read        [ rounded down ............. rounded up )   into an aligned buffer
//! ```
//!
//! Where `O_DIRECT` is refused (tmpfs on old kernels, some network file
//! systems), each read first asks the kernel to drop the cached pages.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{Advice, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::open::{allocated_bytes, open_with};
use crate::disk::File;
use crate::path_error::on_path;

/// Alignment of direct reads. Sectors of devices are 512 bytes or 4 KiB.
const ALIGNMENT: usize = 4096;
/// Largest size of the bounce buffer: longer reads are done in steps.
const STEP_BYTES: usize = 4 << 20;

/// A file opened with [`crate::disk::OpenMode::ReadDevice`].
#[derive(Debug)]
pub(super) struct DeviceFile {
    descriptor: OwnedFd,
    /// Path at which the file was opened; for messages only.
    path: PathBuf,
    /// False if the file system refused `O_DIRECT` when the file was opened.
    direct: bool,
}

impl DeviceFile {
    pub(super) fn open(path: &Path) -> io::Result<DeviceFile> {
        let opened = match open_direct(path) {
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                open_with(path, OFlags::RDONLY).map(|descriptor| (descriptor, false))
            }
            opened => opened.map(|descriptor| (descriptor, true)),
        };
        let (descriptor, direct) =
            opened.map_err(|error| on_path("open for device reads", path, error))?;
        Ok(DeviceFile {
            descriptor,
            path: path.to_path_buf(),
            direct,
        })
    }

    /// Reads into `buffer` from one aligned window of at most [`STEP_BYTES`]. Returns the number
    /// of bytes that the window held for `buffer`.
    fn read_step(&self, bounce: &mut Bounce, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = offset - offset % ALIGNMENT as u64;
        let skipped = (offset - start) as usize;
        let wanted = (skipped + buffer.len())
            .next_multiple_of(ALIGNMENT)
            .min(STEP_BYTES);
        let window = bounce.bytes_mut(wanted);
        let read = retry_on_intr(|| rustix::io::pread(&self.descriptor, &mut *window, start))
            .map_err(|error| on_path("read from the device", &self.path, error))?;
        let useful = read.saturating_sub(skipped).min(buffer.len());
        buffer[..useful].copy_from_slice(&window[skipped..skipped + useful]);
        Ok(useful)
    }

    fn read_only(&self) -> io::Error {
        on_path("write (opened for device reads)", &self.path, Errno::BADF)
    }
}

/// Opens with `O_DIRECT` and tries one read, because some file systems accept the flag and
/// refuse the first read.
fn open_direct(path: &Path) -> rustix::io::Result<OwnedFd> {
    let descriptor = open_with(path, OFlags::RDONLY | OFlags::DIRECT)?;
    let mut bounce = Bounce::new(ALIGNMENT);
    retry_on_intr(|| rustix::io::pread(&descriptor, bounce.bytes_mut(ALIGNMENT), 0))?;
    Ok(descriptor)
}

impl File for DeviceFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if !self.direct {
            // Advice only; where it is ignored the read is merely cached.
            let _ = rustix::fs::fadvise(&self.descriptor, 0, None, Advice::DontNeed);
        }
        let longest = (buffer.len() + 2 * ALIGNMENT).next_multiple_of(ALIGNMENT);
        let mut bounce = Bounce::new(longest.min(STEP_BYTES));
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            match self.read_step(&mut bounce, &mut buffer[filled..], at)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    fn write_at(&self, _parts: &[&[u8]], _offset: u64) -> io::Result<()> {
        Err(self.read_only())
    }

    fn write_durable_at(&self, _parts: &[&[u8]], _offset: u64) -> io::Result<()> {
        Err(self.read_only())
    }

    fn sync_data(&self) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.descriptor))
            .map_err(|error| on_path("sync", &self.path, error))
    }

    fn size(&self) -> io::Result<u64> {
        let status = rustix::fs::fstat(&self.descriptor)
            .map_err(|error| on_path("ask the size of", &self.path, error))?;
        Ok(u64::try_from(status.st_size).expect("the kernel gives no negative size"))
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        allocated_bytes(&self.descriptor)
            .map_err(|error| on_path("ask the blocks of", &self.path, error))
    }

    fn keep_size(&self) {}

    fn set_size(&self, _size: u64) -> io::Result<()> {
        Err(self.read_only())
    }

    fn reserve(&self, _size: u64) -> io::Result<()> {
        Err(self.read_only())
    }
}

/// Memory that starts at a multiple of [`ALIGNMENT`].
struct Bounce {
    memory: Vec<u8>,
    /// Offset in `memory` of the aligned part.
    start: usize,
}

impl Bounce {
    fn new(length: usize) -> Bounce {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "bytes can be aligned anywhere");
        Bounce { memory, start }
    }

    fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OpenMode;
    use crate::real::file::CachedFile;

    /// Writes a file longer than two steps, in which each byte is its offset modulo 253.
    fn pattern_file(path: &Path) -> Vec<u8> {
        let bytes: Vec<u8> = (0..2 * STEP_BYTES + 777)
            .map(|at| (at % 253) as u8)
            .collect();
        let file = CachedFile::open(path, OpenMode::CreateNew).unwrap();
        file.write_durable_at(&[&bytes], 0).unwrap();
        bytes
    }

    fn reads_what_was_written(file: &DeviceFile, bytes: &[u8]) {
        let ranges = [
            (0, 1),
            (1, 4096),
            (4095, 2),
            (511, STEP_BYTES + 3),
            (7, bytes.len() - 7),
        ];
        for (offset, length) in ranges {
            let mut buffer = vec![0; length];
            assert_eq!(file.read_at(&mut buffer, offset as u64).unwrap(), length);
            assert!(
                buffer == bytes[offset..offset + length],
                "at {offset}+{length}"
            );
        }
        let mut buffer = [0; 64];
        assert_eq!(
            file.read_at(&mut buffer, bytes.len() as u64 - 10).unwrap(),
            10
        );
        assert_eq!(
            file.read_at(&mut buffer, bytes.len() as u64 + 5_000)
                .unwrap(),
            0
        );
    }

    #[test]
    fn unaligned_reads_across_steps_and_past_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes = pattern_file(&path);
        reads_what_was_written(&DeviceFile::open(&path).unwrap(), &bytes);
    }

    #[test]
    fn the_same_where_direct_reads_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes = pattern_file(&path);
        let buffered = DeviceFile {
            descriptor: open_with(&path, OFlags::RDONLY).unwrap(),
            path,
            direct: false,
        };
        reads_what_was_written(&buffered, &bytes);
    }
}
