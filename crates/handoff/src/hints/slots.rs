//! What the locks of this process write, if a page is installed.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::page::{AlreadyInstalled, Header, PLACES, Slot, place_of, slot_at};
use crate::lock::Lock;

static PAGE: AtomicPtr<Header> = AtomicPtr::new(null_mut());
static SLOTS: AtomicU32 = AtomicU32::new(0);
/// Gives the slot back when its thread ends; the key and 1, so that 0 is none.
static KEY: AtomicU64 = AtomicU64::new(0);

/// No slot has been looked for.
const UNKNOWN: u32 = 0;
/// There was no free one, or the thread is ending.
const NONE: u32 = u32::MAX;

thread_local! {
    /// Number of this thread's slot.
    static SLOT: Cell<u32> = const { Cell::new(UNKNOWN) };
}

pub(super) fn install(start: NonNull<Header>, slots: u32) -> Result<(), AlreadyInstalled> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return Err(AlreadyInstalled);
    }
    let mut key = 0;
    // SAFETY: `key` is writable, the destructor takes what `find_slot` stores.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        KEY.store(u64::from(key) + 1, Ordering::Relaxed);
    }
    SLOTS.store(slots, Ordering::Relaxed);
    // Last: whoever sees the page sees the rest.
    PAGE.store(start.as_ptr(), Ordering::Release);
    Ok(())
}

/// In a forked child: the page is the parent's.
pub(crate) fn forked() {
    PAGE.store(null_mut(), Ordering::Relaxed);
    SLOT.set(NONE);
}

/// The thread has entered a lock.
#[inline(always)]
pub(crate) fn entered(holder: &AtomicU32) {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_entered(holder);
    }
}

/// The thread is about to leave a lock.
#[inline(always)]
pub(crate) fn left(holder: &AtomicU32) {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_left(holder);
    }
}

/// The thread is about to park.
#[inline(always)]
pub(crate) fn waits(lock: &Lock) {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_waiting(std::ptr::from_ref(lock).addr() as u64);
    }
}

/// The thread parks no longer.
#[inline(always)]
pub(crate) fn waits_no_more() {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_waiting(0);
    }
}

/// Whether a watcher says that the holder has no core.
#[inline(always)]
pub(crate) fn holder_is_preempted(holder: &AtomicU32) -> bool {
    !PAGE.load(Ordering::Relaxed).is_null()
        && slot(holder.load(Ordering::Relaxed))
            .is_some_and(|slot| slot.preempted.load(Ordering::Relaxed) != 0)
}

#[cold]
fn note_entered(holder: &AtomicU32) {
    let number = own_number();
    if let Some(slot) = slot(number) {
        let depth = slot.depth.load(Ordering::Relaxed);
        slot.depth.store(depth.saturating_add(1), Ordering::Relaxed);
        if slot.preempted.load(Ordering::Relaxed) != 0 {
            // Its watcher has left: whoever enters has a core.
            slot.preempted.store(0, Ordering::Relaxed);
        }
        holder.store(number, Ordering::Relaxed);
    } else {
        holder.store(0, Ordering::Relaxed);
    }
}

#[cold]
fn note_left(holder: &AtomicU32) {
    holder.store(0, Ordering::Relaxed);
    if let Some(slot) = slot(own_number()) {
        let depth = slot.depth.load(Ordering::Relaxed);
        slot.depth.store(depth.saturating_sub(1), Ordering::Relaxed);
    }
}

#[cold]
fn note_waiting(lock: u64) {
    if let Some(slot) = slot(own_number()) {
        slot.waiting.store(lock, Ordering::Relaxed);
    }
}

fn slot(number: u32) -> Option<&'static Slot> {
    let start = NonNull::new(PAGE.load(Ordering::Acquire))?;
    let exists = (1..=SLOTS.load(Ordering::Relaxed)).contains(&number);
    // SAFETY: an installed page is never unmapped and has so many slots.
    exists.then(|| unsafe { slot_at(start, number).as_ref() })
}

fn own_number() -> u32 {
    match SLOT.get() {
        UNKNOWN => {
            let number = find_slot().unwrap_or(NONE);
            SLOT.set(number);
            number
        }
        number => number,
    }
}

/// Takes one of this thread's places: the one that a program before this one left to the
/// same thread, or a free one, or that of a thread which has ended without giving it back.
fn find_slot() -> Option<u32> {
    let key = KEY.load(Ordering::Relaxed).checked_sub(1)? as libc::pthread_key_t;
    // SAFETY: asks for a number.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let slots = SLOTS.load(Ordering::Relaxed);
    if slots == 0 {
        return None;
    }
    let places = || (0..PLACES).map(|place| place_of(thread, place, slots));
    let number = places()
        .find(|number| take_from(*number, thread, |before| before == thread))
        .or_else(|| places().find(|number| take_from(*number, thread, |before| before == 0)))
        .or_else(|| places().find(|number| take_from(*number, thread, has_ended)))?;
    // SAFETY: our key; its destructor takes a number for a pointer.
    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(number as usize)) };
    count_change();
    Some(number)
}

/// Takes the slot if whoever has it may lose it.
fn take_from(number: u32, thread: u32, may_lose: impl Fn(u32) -> bool) -> bool {
    let Some(slot) = slot(number) else {
        return false;
    };
    let before = slot.thread.load(Ordering::Relaxed);
    let taken = may_lose(before)
        && slot
            .thread
            .compare_exchange(before, thread, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    if taken {
        slot.clear();
    }
    taken
}

/// Whether no thread has this number any more: processes end without their threads
/// giving anything back.
fn has_ended(thread: u32) -> bool {
    // SAFETY: the thread's own error number, which a lock must not change; and asking
    // whether somebody could be signalled signals nobody.
    unsafe {
        let error = libc::__errno_location();
        let before = *error;
        let outcome = libc::kill(thread.cast_signed(), 0);
        let has_ended = outcome != 0 && *error == libc::ESRCH;
        *error = before;
        has_ended
    }
}

unsafe extern "C" fn thread_ends(number: *mut c_void) {
    let number = number.addr() as u32;
    // Destructors that run later still use locks.
    SLOT.set(NONE);
    if let Some(slot) = slot(number) {
        slot.clear();
        slot.thread.store(0, Ordering::Release);
        count_change();
    }
}

fn count_change() {
    if let Some(start) = NonNull::new(PAGE.load(Ordering::Acquire)) {
        // SAFETY: an installed page is never unmapped.
        unsafe { start.as_ref() }
            .generation
            .fetch_add(1, Ordering::Release);
    }
}
