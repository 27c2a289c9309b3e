//! A file's pages in this process's memory: small reads without a system call, and bytes that are
//! looked at where they are.
//!
//! A page that cannot be read in from the device ends the process here (`SIGBUS`), where
//! `pread` answers with an error. So the first read of each page is a `pread`, which also
//! brings it into the page cache. The signal then strikes only for a page that the cache has
//! dropped since, and that the device cannot read again (docs/assumptions.md, 13).

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::disk::Lent;

/// The unit in which reads are remembered. Where the kernel's pages are larger, a read of a
/// neighbour in the same page may meet the signal although this one was good.
const PAGE_BYTES: usize = 4096;
/// Longer copies are left to `pread`: the system call costs little beside the copy, and it
/// reads from the device in one piece.
const READ_BYTES_MAX: usize = 2 * PAGE_BYTES;

/// The kernel is asked at once for as many pages whether they are cached.
const ASKED_PAGES: usize = 160;

/// Bytes of a line of the processor's cache. Where lines are longer, some are fetched twice.
const LINE_BYTES: usize = 64;

/// A mapping of a file that must not be cut while this exists.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// A bit for each page that was read without an error.
    known: Box<[AtomicU64]>,
}

// SAFETY: the memory is only read, and unmapped when the mapping is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first `bytes` of a file. `None`: the kernel refuses, or there are none.
    pub fn of(descriptor: BorrowedFd<'_>, bytes: usize) -> Option<Mapping> {
        let (may, how) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { rustix::mm::mmap(null_mut(), bytes, may, how, descriptor, 0) };
        let start = start.ok()?;
        // Reads are scattered. This is advice only, so a refusal does not matter.
        // SAFETY: this is the mapping that was just made, and reads give the same after it.
        let _ = unsafe { rustix::mm::madvise(start, bytes, Advice::Random) };
        let words = bytes.div_ceil(PAGE_BYTES).div_ceil(64);
        Some(Mapping {
            start: NonNull::new(start.cast())?,
            bytes,
            known: (0..words).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills the buffer, if it is small and all its pages are known.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> bool {
        if buffer.len() > READ_BYTES_MAX || !self.knows(offset, buffer.len()) {
            return false;
        }
        // SAFETY: known pages lie within the mapping. The file may be
        // written at the same time: a copy with older and newer bytes is what `pread` gives,
        // too, and callers check afterwards whether the bytes are those they asked for.
        unsafe {
            let from = self.start.as_ptr().add(offset as usize);
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len());
        }
        true
    }

    /// Lends bytes, if all their pages are known.
    pub fn lend(&self, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        self.knows(offset, bytes).then(|| {
            // SAFETY: known pages lie within the mapping, which lives as long as this.
            unsafe { Lent::new(self.start.add(offset as usize), bytes) }
        })
    }

    /// Whether the page cache has these bytes; `None` where the kernel does not say. Of a file that this process neither
    /// owns nor may write, Linux says that all is cached.
    pub fn is_cached(&self, offset: u64, bytes: u64) -> Option<bool> {
        let (first, last) = self.pages(offset, usize::try_from(bytes).ok()?)?;
        let mut resident = [1; ASKED_PAGES];
        for page in (first..=last).step_by(ASKED_PAGES) {
            let pages = (last + 1 - page).min(ASKED_PAGES);
            let start = self.start.as_ptr().wrapping_add(page * PAGE_BYTES);
            let bytes = (self.bytes - page * PAGE_BYTES).min(pages * PAGE_BYTES);
            // SAFETY: the pages lie within the mapping, and the kernel writes a byte for each of them. Where its own pages
            // are larger, these are fewer, or it refuses a start between two of them.
            let answer = unsafe { libc::mincore(start.cast(), bytes, resident.as_mut_ptr()) };
            if answer != 0 {
                return None;
            }
            if resident[..pages].iter().any(|page| page & 1 == 0) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Hints to the processor that known bytes will be read at once.
    pub fn prefetch(&self, offset: u64, bytes: usize) {
        if self.knows(offset, bytes) {
            let start = offset as usize / LINE_BYTES * LINE_BYTES;
            for at in (start..offset as usize + bytes).step_by(LINE_BYTES) {
                prefetch_line(self.start.as_ptr().wrapping_add(at));
            }
        }
    }

    /// Notes that `bytes` at `offset` were read with `pread`, without an error.
    pub fn note_read(&self, offset: u64, bytes: usize) {
        if let Some((first, last)) = self.pages(offset, bytes) {
            for page in first..=last {
                self.known[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
            }
        }
    }

    /// Whether all pages of a range are known.
    #[inline]
    fn knows(&self, offset: u64, bytes: usize) -> bool {
        let is_known = |page: usize| {
            let pages = self.known[page / 64].load(Ordering::Relaxed);
            pages & (1 << (page % 64)) != 0
        };
        let pages = self.pages(offset, bytes);
        pages.is_some_and(|(first, last)| (first..=last).all(is_known))
    }

    /// The first and the last page of a range; `None` where there is no such range.
    fn pages(&self, offset: u64, bytes: usize) -> Option<(usize, usize)> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(bytes)?;
        let is_there = bytes > 0 && end <= self.bytes;
        is_there.then(|| (offset / PAGE_BYTES, (end - 1) / PAGE_BYTES))
    }
}

/// Does nothing on other processors.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(
        unused_variables,
        reason = "their instruction needs a nightly compiler"
    )
)]
#[inline]
fn prefetch_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which has no effect that a program could see, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast::<c_void>();
        // SAFETY: a drop has exclusive access, so no thread reads any more. A refusal leaves
        // the addresses in use, which does no harm.
        let _ = unsafe { rustix::mm::munmap(start, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    const BYTES: usize = 3 * PAGE_BYTES + 100;

    fn a_mapping() -> (File, Mapping) {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let mapping = Mapping::of(file.as_fd(), BYTES).unwrap();
        (file, mapping)
    }

    #[test]
    fn a_page_is_read_here_only_after_it_was_read_without_an_error() {
        let (_file, mapping) = a_mapping();
        let mut buffer = [0; 10];
        let across = PAGE_BYTES as u64 - 5;
        assert!(!mapping.read(&mut buffer, across));
        mapping.note_read(0, 1);
        assert!(mapping.read(&mut buffer, 0));
        assert!(
            !mapping.read(&mut buffer, across),
            "of two pages one is known"
        );
        mapping.note_read(across, 10);
        assert!(mapping.read(&mut buffer, across));
        let expected: Vec<u8> = (4091..4101).map(|at| (at % 251) as u8).collect();
        assert_eq!(&buffer[..], &expected);
    }

    #[test]
    fn bytes_of_any_length_are_lent_when_all_their_pages_are_known() {
        let (_file, mapping) = a_mapping();
        let lend = |offset, bytes| {
            let lent = mapping.lend(offset, bytes);
            // SAFETY: nothing writes to the file.
            lent.map(|lent| unsafe { lent.bytes() })
        };
        mapping.note_read(0, 2 * PAGE_BYTES);
        assert_eq!(lend(250, 3), Some(&[250, 0, 1][..]));
        assert_eq!(
            lend(0, 2 * PAGE_BYTES).map(<[u8]>::len),
            Some(2 * PAGE_BYTES)
        );
        assert_eq!(lend(0, 2 * PAGE_BYTES + 1), None);
        mapping.note_read(0, BYTES);
        assert_eq!(lend(0, BYTES).map(<[u8]>::len), Some(BYTES));
        for (offset, bytes) in [(0, BYTES + 1), (1, BYTES), (u64::MAX, 2), (0, 0)] {
            assert_eq!(lend(offset, bytes), None);
        }
    }

    #[test]
    fn what_was_just_written_is_cached_and_beyond_the_end_is_no_answer() {
        let bytes = (2 * ASKED_PAGES + 3) * PAGE_BYTES;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; bytes], 0).unwrap();
        let mapping = Mapping::of(file.as_fd(), bytes).unwrap();
        let bytes = bytes as u64;
        for (offset, bytes) in [(0, 1), (0, bytes), (4_095, 2), (bytes - 1, 1)] {
            assert_eq!(mapping.is_cached(offset, bytes), Some(true));
        }
        for (offset, bytes) in [(0, bytes + 1), (bytes, 1), (u64::MAX, 2), (0, 0)] {
            assert_eq!(mapping.is_cached(offset, bytes), None);
        }
    }

    #[test]
    fn a_page_of_a_file_that_was_never_written_is_not_cached() {
        let pages = 2 * ASKED_PAGES + 3;
        let page_bytes = PAGE_BYTES as u64;
        for missing in [0, 1, ASKED_PAGES, ASKED_PAGES + 5, pages - 1] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(pages as u64 * page_bytes).unwrap();
            for page in (0..pages).filter(|page| *page != missing) {
                let at = page as u64 * page_bytes;
                file.write_all_at(&[1; PAGE_BYTES], at).unwrap();
            }
            let mapping = Mapping::of(file.as_fd(), pages * PAGE_BYTES).unwrap();
            let is_cached = |first: usize, end: usize| {
                let (first, end) = (first as u64 * page_bytes, end as u64 * page_bytes);
                mapping.is_cached(first, end - first)
            };
            assert_eq!(is_cached(0, pages), Some(false));
            assert_eq!(is_cached(missing, missing + 1), Some(false));
            for (first, end) in [(0, missing), (missing + 1, pages)] {
                if first < end {
                    assert_eq!(is_cached(first, end), Some(true));
                }
            }
        }
    }

    #[test]
    fn later_writes_are_seen() {
        let (file, mapping) = a_mapping();
        mapping.note_read(0, BYTES);
        file.write_all_at(b"later", 5_000).unwrap();
        let mut buffer = [0; 5];
        assert!(mapping.read(&mut buffer, 5_000));
        assert_eq!(&buffer, b"later");
    }

    #[test]
    fn long_reads_and_those_beyond_the_end_are_left_to_system_calls() {
        let (_file, mapping) = a_mapping();
        mapping.note_read(0, BYTES);
        assert!(mapping.read(&mut [0; READ_BYTES_MAX], 0));
        assert!(!mapping.read(&mut [0; READ_BYTES_MAX + 1], 0));
        assert!(mapping.read(&mut [0; 100], BYTES as u64 - 100));
        assert!(!mapping.read(&mut [0; 101], BYTES as u64 - 100));
        assert!(!mapping.read(&mut [0; 1], u64::MAX));
        assert!(!mapping.read(&mut [], 0));
    }
}
