//! Hints that the locks of this process write, if a page is installed.

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::page::{Header, NotInstalled, PLACES, Slot, place_of, slot_at};

static PAGE: AtomicPtr<Header> = AtomicPtr::new(null_mut());
static SLOTS: AtomicU32 = AtomicU32::new(0);
/// Key of the destructor that gives a slot back when its thread ends, plus 1; 0 if there is
/// none.
static KEY: AtomicU64 = AtomicU64::new(0);

/// The thread has not looked for a slot yet.
const UNKNOWN: u32 = 0;
/// The thread has found no free slot, or is ending.
const NONE: u32 = u32::MAX;

thread_local! {
    /// Number of this thread's slot.
    static SLOT: Cell<u32> = const { Cell::new(UNKNOWN) };
}

pub(super) fn install(start: NonNull<Header>, slots: u32) -> Result<(), NotInstalled> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return Err(NotInstalled::Another);
    }
    let mut key = 0;
    // SAFETY: `key` is writable, the destructor takes what `find_slot` stores.
    match unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } {
        0 => KEY.store(u64::from(key) + 1, Ordering::Relaxed),
        code => {
            INSTALLED.store(false, Ordering::Relaxed);
            return Err(NotInstalled::NoThreadKey(io::Error::from_raw_os_error(
                code,
            )));
        }
    }
    SLOTS.store(slots, Ordering::Relaxed);
    // Stored last: a thread that sees the page sees the rest.
    PAGE.store(start.as_ptr(), Ordering::Release);
    Ok(())
}

/// Stops writing hints, in a forked child: the page and the slot belong to the parent.
pub(crate) fn forked() {
    PAGE.store(null_mut(), Ordering::Relaxed);
    SLOT.set(NONE);
}

/// Notes that the thread has entered a lock.
#[inline(always)]
pub(crate) fn entered(holder: &AtomicU32) {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_entered(holder);
    }
}

/// Notes that the thread is about to leave a lock.
#[inline(always)]
pub(crate) fn left(holder: &AtomicU32) {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_left(holder);
    }
}

/// Notes that the thread is about to park at the lock at this address.
#[inline(always)]
pub(crate) fn waits(lock: *const ()) {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_waiting(lock.addr() as u64);
    }
}

/// Notes that the thread parks no longer.
#[inline(always)]
pub(crate) fn waits_no_more() {
    if !PAGE.load(Ordering::Relaxed).is_null() {
        note_waiting(0);
    }
}

/// Whether a watcher has marked that the holder has no core.
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
            // The watcher that set it has ended: a thread that enters a lock has a core.
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
    // SAFETY: an installed page is never unmapped and has `SLOTS` slots.
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

/// Takes one of the slots that this thread may have: the one that the same thread had before it
/// executed this program, or a free one, or that of a thread which has ended without giving
/// it back.
fn find_slot() -> Option<u32> {
    let key = KEY.load(Ordering::Relaxed).checked_sub(1)? as libc::pthread_key_t;
    // SAFETY: returns a number.
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
    // SAFETY: the key exists; its destructor expects a number in the place of a pointer.
    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(number as usize)) };
    count_change();
    Some(number)
}

/// Takes the slot if `may_lose` allows it for the number of the thread that has it (0 if none).
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

/// Whether no thread has this number any more. The threads of a process that is killed do not
/// give their slots back.
fn has_ended(thread: u32) -> bool {
    // SAFETY: the thread's own `errno`, which a lock must not change; and signal 0 is not
    // sent, but only checked.
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
    // Destructors that run later may still use locks.
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
