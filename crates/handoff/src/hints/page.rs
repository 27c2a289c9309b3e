//! The page: making one, opening somebody else's, reading it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// First eight bytes of a page: "handoff" and a zero, read as little-endian.
pub const MAGIC: u64 = 0x0066_666f_646e_6168;
/// Layout of this page. A page of another version is refused.
pub const VERSION: u32 = 3;
/// Bytes of the header, and of each slot.
pub const SLOT_BYTES: usize = 64;
/// 4 MiB; more threads than that go without hints.
const SLOTS_MAX: u32 = 65_535;
/// Slots in which a thread may be, so that whoever knows its number finds it without
/// looking at all of them.
pub const PLACES: u32 = 8;

#[repr(C, align(64))]
pub(super) struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    /// Slots after the header.
    slots: AtomicU32,
    /// Changes whenever a slot gets or loses its thread.
    pub(super) generation: AtomicU32,
    /// Processes whose locks are ours because they loaded the preload library.
    attached: AtomicU32,
    /// Processes that loaded it in vain: it does not know their C library.
    aside: AtomicU32,
}

#[repr(C, align(64))]
pub(super) struct Slot {
    /// Kernel's number of the thread; 0 while the slot is free.
    pub(super) thread: AtomicU32,
    /// Locks that the thread holds.
    pub(super) depth: AtomicU32,
    /// Address of the lock it is parked at; 0 if none.
    pub(super) waiting: AtomicU64,
    /// Not 0: the thread lost its core while it held a lock.
    pub(super) preempted: AtomicU32,
}

impl Slot {
    /// Forgets whatever its thread did.
    pub(super) fn clear(&self) {
        self.depth.store(0, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        self.preempted.store(0, Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<Header>() == SLOT_BYTES && size_of::<Slot>() == SLOT_BYTES);

/// What a slot said when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadHints {
    /// Number of the slot, from 1.
    pub slot: u32,
    /// Kernel's number of the thread.
    pub thread: u32,
    /// Locks it holds.
    pub depth: u32,
    /// Address of the lock it is parked at.
    pub waiting: Option<u64>,
    /// Whether a watcher says that it lost its core while holding a lock.
    pub is_preempted: bool,
}

/// Why a file is no page that we can use.
#[derive(Debug)]
pub enum Refused {
    /// It could not be mapped.
    Unreadable(io::Error),
    /// It has too few bytes for what it says, or for anything.
    TooShort {
        /// Bytes there are.
        bytes: u64,
    },
    /// It begins with something else.
    NotAPage {
        /// What stands in the place of the magic number.
        found: u64,
    },
    /// It was made by another version of this library.
    OtherVersion {
        /// The version it has.
        found: u32,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unreadable(error) => write!(out, "hint page cannot be mapped: {error}"),
            Refused::TooShort { bytes } => write!(
                out,
                "hint page has {bytes} bytes, fewer than its slots need; make it anew"
            ),
            Refused::NotAPage { found } => write!(
                out,
                "this is no hint page: it begins with {found:#018x} instead of {MAGIC:#018x}"
            ),
            Refused::OtherVersion { found } => write!(
                out,
                "hint page has version {found}, this library knows {VERSION}: \
                 use the same release on both sides"
            ),
        }
    }
}

impl std::error::Error for Refused {}

/// This process writes into a page already.
#[derive(Debug)]
pub struct AlreadyInstalled;

impl fmt::Display for AlreadyInstalled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "this process has a hint page already and keeps it")
    }
}

impl std::error::Error for AlreadyInstalled {}

/// A mapped page.
pub struct Page {
    start: NonNull<Header>,
    slots: u32,
}

// SAFETY: all of the page is atomics, and the mapping belongs to no thread.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// A new page with room for so many threads, none if it is for the greeting of the
    /// preload library alone, and the file to pass on to
    /// whoever reads or writes it. The file is closed on exec unless its owner
    /// says otherwise.
    pub fn create(slots: u32) -> io::Result<(Page, OwnedFd)> {
        let slots = slots.min(SLOTS_MAX);
        // SAFETY: the name is a string with its zero.
        let file = unsafe { libc::memfd_create(c"handoff-hints".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: we have just made it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let bytes = bytes_of(slots);
        // SAFETY: a file of ours.
        if unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let page = Page::create_in(file.as_fd(), slots)?;
        Ok((page, file))
    }

    /// A new page in a file that has [`bytes_of`] so many slots, all zeros: a map of
    /// the kernel's, for instance.
    pub fn create_in(file: BorrowedFd<'_>, slots: u32) -> io::Result<Page> {
        let page = Page::map(file, slots)?;
        let header = page.header();
        header.version.store(VERSION, Ordering::Relaxed);
        header.slots.store(slots, Ordering::Relaxed);
        // Last: whoever sees it sees the rest.
        header.magic.store(MAGIC, Ordering::Release);
        Ok(page)
    }

    /// Maps a page that somebody else has made.
    pub fn open(file: BorrowedFd<'_>) -> Result<Page, Refused> {
        let length = length(file).map_err(Refused::Unreadable)?;
        // What is no file of bytes, such as a map of the kernel's, cannot be mapped
        // beyond its end.
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
        // SAFETY: a new mapping at a place the kernel chooses.
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

    /// The locks of this process write into the page from now on, for as long as it lives.
    pub fn install(self) -> Result<(), AlreadyInstalled> {
        let page = std::mem::ManuallyDrop::new(self);
        super::slots::install(page.start, page.slots)
    }

    /// Whether threads have slots to write into.
    pub fn wants_hints(&self) -> bool {
        self.slots > 0
    }

    /// For the preload library: says that it is loaded in this process, and whether
    /// its locks are in use.
    pub fn greet(&self, in_use: bool) {
        let header = self.header();
        let count = if in_use {
            &header.attached
        } else {
            &header.aside
        };
        count.fetch_add(1, Ordering::Release);
    }

    /// Processes that have greeted with our locks in use, and those without.
    pub fn greetings(&self) -> (u32, u32) {
        let header = self.header();
        let attached = header.attached.load(Ordering::Acquire);
        (attached, header.aside.load(Ordering::Acquire))
    }

    /// What each thread with a slot says now.
    pub fn threads(&self) -> impl Iterator<Item = ThreadHints> {
        (1..=self.slots).filter_map(|number| self.read(number))
    }

    /// Changes whenever a thread gets or loses its slot.
    pub fn generation(&self) -> u32 {
        self.header().generation.load(Ordering::Acquire)
    }

    /// For whoever watches the scheduler: the thread in this slot has lost its core
    /// while it held a lock, or has it again. False for a slot that does not exist.
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
        // SAFETY: mapped as long as `self` lives, all atomics.
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
        // SAFETY: our own mapping, and nobody borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes_of(self.slots)) };
    }
}

/// The slot with this number; the header has the place of number 0.
///
/// # Safety
/// The page is mapped and has so many slots.
pub(super) unsafe fn slot_at(start: NonNull<Header>, number: u32) -> NonNull<Slot> {
    // SAFETY: the caller's promise.
    unsafe { start.cast::<Slot>().add(number as usize) }
}

/// The number of one of the [`PLACES`] of a thread, from 0, on a page with slots.
pub(super) fn place_of(thread: u32, place: u32, slots: u32) -> u32 {
    1 + thread.wrapping_add(place) % slots
}

/// Bytes of a page with so many slots.
pub fn bytes_of(slots: u32) -> usize {
    SLOT_BYTES * (slots as usize + 1)
}

/// None if it is no file of bytes.
fn length(file: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    // SAFETY: all zeros are a valid `stat`.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open file, and a place for the answer.
    if unsafe { libc::fstat(file.as_raw_fd(), &raw mut about) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_of_bytes = about.st_mode & libc::S_IFMT == libc::S_IFREG;
    Ok(is_of_bytes.then(|| about.st_size.cast_unsigned()))
}
