//! The hint page: making one, opening that of another process, reading it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// First eight bytes of a page: "handoff" and a zero, read as little-endian.
pub const MAGIC: u64 = 0x0066_666f_646e_6168;
/// Version of the layout. A page of another version is refused.
pub const VERSION: u32 = 3;
/// Size in bytes of the header, and of each slot.
pub const SLOT_BYTES: usize = 64;
/// 4 MiB; further threads have no hints.
const SLOTS_MAX: u32 = 65_535;
/// Number of slots that a thread may take, so that a reader that knows the thread's number
/// looks at that many slots and not at all.
pub const PLACES: u32 = 8;

#[repr(C, align(64))]
pub(super) struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    /// Slots after the header.
    slots: AtomicU32,
    /// Changes whenever a slot gets or loses its thread.
    pub(super) generation: AtomicU32,
    /// Processes that use the locks of the preload library.
    attached: AtomicU32,
    /// Processes that loaded the preload library but use the C library's locks, because it
    /// does not know their C library.
    aside: AtomicU32,
}

#[repr(C, align(64))]
pub(super) struct Slot {
    /// The kernel's number of the thread; 0 while the slot is free.
    pub(super) thread: AtomicU32,
    /// Locks that the thread holds.
    pub(super) depth: AtomicU32,
    /// Address of the lock at which the thread is parked; 0 if none.
    pub(super) waiting: AtomicU64,
    /// Not 0 if the thread has lost its core while it held a lock.
    pub(super) preempted: AtomicU32,
}

impl Slot {
    /// Clears the hints, not the thread's number.
    pub(super) fn clear(&self) {
        self.depth.store(0, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        self.preempted.store(0, Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<Header>() == SLOT_BYTES && size_of::<Slot>() == SLOT_BYTES);

/// A thread's hints at the moment when its slot was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadHints {
    /// Number of the slot, from 1.
    pub slot: u32,
    /// The kernel's number of the thread.
    pub thread: u32,
    /// Number of locks that the thread holds.
    pub depth: u32,
    /// Address of the lock at which the thread is parked.
    pub waiting: Option<u64>,
    /// Whether a watcher has marked that the thread lost its core while holding a lock.
    pub is_preempted: bool,
}

/// Reason for which a file cannot be used as a page.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The file could not be mapped.
    #[error("hint page cannot be mapped: {0}")]
    Unreadable(io::Error),
    /// The file is shorter than a header, or than its header says.
    #[error("hint page has {bytes} bytes, fewer than its slots need; make a new one")]
    TooShort {
        /// Size of the file.
        bytes: u64,
    },
    /// The file does not begin with [`MAGIC`].
    #[error("this is no hint page: it begins with {found:#018x} instead of {MAGIC:#018x}")]
    NotAPage {
        /// Its first eight bytes.
        found: u64,
    },
    /// The page has another version of the layout.
    #[error(
        "hint page has version {found}, this library knows {VERSION}: \
         use the same release on both sides"
    )]
    OtherVersion {
        /// Its version.
        found: u32,
    },
}

/// Error of [`Page::install`].
#[derive(Debug, thiserror::Error)]
pub enum NotInstalled {
    /// This process writes into a page already.
    #[error("this process has a hint page already and keeps it")]
    Another,
    /// `pthread_key_create` failed.
    #[error("no key for a thread's slot in the hint page: {0}; the process has too many")]
    NoThreadKey(io::Error),
}

/// A hint page, mapped into this process.
pub struct Page {
    start: NonNull<Header>,
    slots: u32,
}

// SAFETY: all of the page is atomics, and the mapping belongs to no thread.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Makes a page with room for `slots` threads, and the file by which other processes read
    /// and write it. A page with 0 slots serves for the preload library's greeting alone. The
    /// file is closed on exec unless its owner clears that flag.
    pub fn create(slots: u32) -> io::Result<(Page, OwnedFd)> {
        let slots = slots.min(SLOTS_MAX);
        // SAFETY: the name is a string that ends with a zero.
        let file = unsafe { libc::memfd_create(c"handoff-hints".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made just now.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let bytes = bytes_of(slots);
        // SAFETY: an open file.
        if unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let page = Page::create_in(file.as_fd(), slots)?;
        Ok((page, file))
    }

    /// Makes a page in a file that has [`bytes_of`]`(slots)` bytes, all zeros: a BPF map, for
    /// instance.
    pub fn create_in(file: BorrowedFd<'_>, slots: u32) -> io::Result<Page> {
        let page = Page::map(file, slots)?;
        let header = page.header();
        header.version.store(VERSION, Ordering::Relaxed);
        header.slots.store(slots, Ordering::Relaxed);
        // Stored last: a process that sees it sees the rest of the header.
        header.magic.store(MAGIC, Ordering::Release);
        Ok(page)
    }

    /// Maps a page that another process has made.
    pub fn open(file: BorrowedFd<'_>) -> Result<Page, Refused> {
        let length = length(file).map_err(Refused::Unreadable)?;
        // A file without a length, such as a BPF map, cannot be mapped beyond its end.
        let bytes = length.unwrap_or(u64::MAX);
        if bytes < bytes_of(0) as u64 {
            return Err(Refused::TooShort { bytes });
        }
        let head = Page::map(file, 0).map_err(Refused::Unreadable)?;
        let found = head.header().magic.load(Ordering::Acquire);
        if found != MAGIC {
            return Err(Refused::NotAPage { found });
        }
        let found = head.header().version.load(Ordering::Relaxed);
        if found != VERSION {
            return Err(Refused::OtherVersion { found });
        }
        let slots = head.header().slots.load(Ordering::Relaxed);
        if slots > SLOTS_MAX || bytes < bytes_of(slots) as u64 {
            return Err(Refused::TooShort { bytes });
        }
        Page::map(file, slots).map_err(Refused::Unreadable)
    }

    fn map(file: BorrowedFd<'_>, slots: u32) -> io::Result<Page> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes_of(slots),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("the kernel never maps at address 0");
        Ok(Page { start, slots })
    }

    /// Makes the locks of this process write into the page until the process ends. On a
    /// failure the page is unmapped.
    ///
    /// # Errors
    ///
    /// The locks write into another page already, or the system has no key left by which a
    /// thread's slot is given back when the thread ends.
    pub fn install(self) -> Result<(), NotInstalled> {
        super::slots::install(self.start, self.slots)?;
        std::mem::forget(self);
        Ok(())
    }

    /// Whether the page has slots for hints.
    pub fn wants_hints(&self) -> bool {
        self.slots > 0
    }

    /// Counts this process, in which the preload library is loaded, as one that uses its
    /// locks or as one that does not.
    pub fn greet(&self, in_use: bool) {
        let header = self.header();
        let count = if in_use {
            &header.attached
        } else {
            &header.aside
        };
        count.fetch_add(1, Ordering::Release);
    }

    /// Number of processes that have greeted with `in_use`, and of those without.
    pub fn greetings(&self) -> (u32, u32) {
        let header = self.header();
        let attached = header.attached.load(Ordering::Acquire);
        (attached, header.aside.load(Ordering::Acquire))
    }

    /// The present hints of each thread that has a slot.
    pub fn threads(&self) -> impl Iterator<Item = ThreadHints> {
        (1..=self.slots).filter_map(|number| self.read(number))
    }

    /// A number that changes whenever a thread gets or loses its slot.
    pub fn generation(&self) -> u32 {
        self.header().generation.load(Ordering::Acquire)
    }

    /// Marks that the thread in this slot has lost its core while it held a lock, or has a core
    /// again. A process that watches the scheduler calls it. False if there is no such slot.
    pub fn mark_preempted(&self, slot: u32, is_preempted: bool) -> bool {
        let Some(slot) = self.slot(slot) else {
            return false;
        };
        slot.preempted
            .store(u32::from(is_preempted), Ordering::Relaxed);
        true
    }

    fn read(&self, number: u32) -> Option<ThreadHints> {
        let slot = self.slot(number)?;
        let thread = slot.thread.load(Ordering::Acquire);
        let waiting = slot.waiting.load(Ordering::Relaxed);
        (thread != 0).then(|| ThreadHints {
            slot: number,
            thread,
            depth: slot.depth.load(Ordering::Relaxed),
            waiting: (waiting != 0).then_some(waiting),
            is_preempted: slot.preempted.load(Ordering::Relaxed) != 0,
        })
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped as long as `self` lives, and all fields are atomics.
        unsafe { self.start.as_ref() }
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        let exists = (1..=self.slots).contains(&number);
        // SAFETY: within the mapping, which is as long as its slots.
        exists.then(|| unsafe { slot_at(self.start, number).as_ref() })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes_of(self.slots)) };
    }
}

/// The slot with this number, from 1; the header lies where slot 0 would be.
///
/// # Safety
/// The page is mapped and has at least `number` slots.
pub(super) unsafe fn slot_at(start: NonNull<Header>, number: u32) -> NonNull<Slot> {
    // SAFETY: the caller's promise.
    unsafe { start.cast::<Slot>().add(number as usize) }
}

/// Number of the slot that a thread may take as its `place`, of [`PLACES`], from 0. `slots` is
/// not 0.
pub(super) fn place_of(thread: u32, place: u32, slots: u32) -> u32 {
    1 + thread.wrapping_add(place) % slots
}

/// Size in bytes of a page with `slots` slots.
pub fn bytes_of(slots: u32) -> usize {
    SLOT_BYTES * (slots as usize + 1)
}

/// Length of a regular file; none for any other kind.
fn length(file: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    // SAFETY: all zeros are a valid `stat`.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open file, and room for the answer.
    if unsafe { libc::fstat(file.as_raw_fd(), &raw mut about) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_of_bytes = about.st_mode & libc::S_IFMT == libc::S_IFREG;
    Ok(is_of_bytes.then(|| about.st_size.cast_unsigned()))
}
