//! Which mutexes and condition variables this library has replaced ("ours"), and how their
//! bytes are used.
//!
//! ```text
//!   byte            0      4      8      12     16     20     24        40
//!   pthread_mutex_t lock   count  owner  users  kind   ...    ...
//!   handoff's Lock  state  guard         turn   kind   holder waiters
//!
//!   byte            0      8            24     28      32      36      40  48
//!   pthread_cond_t  ...                        flags*          flags*
//!   our Condition   guard  waiters      length 0       clock   0       0
//! ```
//!
//! \* The lowest bit of the flags means "process-shared". glibc keeps the flags at byte 36,
//! and at byte 28 since it needs fewer counters. Ours are 0 in both places. To find the place
//! that the C library in use has, it is asked for a shared condition variable, and the one
//! word in it that is not 0 is the flags.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use handoff::raw::{Condition, Lock};

use crate::real;

const _: () = assert!(
    size_of::<Lock>() <= size_of::<libc::pthread_mutex_t>()
        && size_of::<Condition>() <= size_of::<libc::pthread_cond_t>()
        && align_of::<Lock>() <= 8
        && align_of::<Condition>() <= 8
        && std::mem::offset_of!(Lock, kind) == 4 * KIND_WORD
        && std::mem::offset_of!(Condition, attributes) == 32
);

const KIND_WORD: usize = 4;
/// Words of a condition variable in which the C library may keep the flags.
const FLAG_WORDS: [usize; 2] = [7, 9];
/// Flag of a condition variable that is shared between processes.
const SHARED: u32 = 1;
/// Index of the attribute in which ours keep the clock of their timed waits.
const CLOCK_ATTRIBUTE: usize = 0;

const UNDECIDED: u32 = 0;
/// The C library's layout is unknown: all calls go to the C library.
const ASIDE: u32 = 1;

/// `UNDECIDED`, `ASIDE`, or the index of the word with the flags.
static FLAG_WORD: AtomicU32 = AtomicU32::new(UNDECIDED);

fn flag_word() -> u32 {
    match FLAG_WORD.load(Ordering::Relaxed) {
        UNDECIDED => decide(),
        decided => decided,
    }
}

/// Whether mutexes of kind 0 are ours in this process. The answer never changes.
#[inline(always)]
pub(crate) fn is_in_use() -> bool {
    flag_word() != ASIDE
}

#[cold]
fn decide() -> u32 {
    // Threads that decide at the same time come to the same result.
    let decided = match find_flag_word() {
        Some(word) if kind_is_at_the_known_place() => word as u32,
        _ => ASIDE,
    };
    FLAG_WORD.store(decided, Ordering::Relaxed);
    decided
}

/// Whether the C library stores the kind of a mutex at [`KIND_WORD`], and zeros elsewhere.
fn kind_is_at_the_known_place() -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::zeroed();
    let mut mutex = MaybeUninit::<[u32; size_of::<libc::pthread_mutex_t>() / 4]>::zeroed();
    // SAFETY: room for attributes and a mutex, which no other thread uses.
    let words = unsafe {
        let attributes = attributes.as_mut_ptr();
        libc::pthread_mutexattr_init(attributes);
        libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_RECURSIVE);
        real::mutex_init(mutex.as_mut_ptr().cast(), attributes);
        libc::pthread_mutexattr_destroy(attributes);
        mutex.assume_init()
    };
    let expected = libc::PTHREAD_MUTEX_RECURSIVE as u32;
    words
        .iter()
        .enumerate()
        .all(|(place, &word)| word == if place == KIND_WORD { expected } else { 0 })
}

/// Index of the word in which the C library stores that a condition variable is shared; none if
/// it is not one of [`FLAG_WORDS`].
fn find_flag_word() -> Option<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_condattr_t>::zeroed();
    let mut condition = MaybeUninit::<[u32; size_of::<libc::pthread_cond_t>() / 4]>::zeroed();
    // SAFETY: room for attributes and a condition variable, which no other thread uses.
    let words = unsafe {
        let attributes = attributes.as_mut_ptr();
        libc::pthread_condattr_init(attributes);
        libc::pthread_condattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED);
        real::cond_init(condition.as_mut_ptr().cast(), attributes);
        libc::pthread_condattr_destroy(attributes);
        condition.assume_init()
    };
    let found = words.iter().position(|&word| word != 0)?;
    let alone = words.iter().filter(|&&word| word != 0).count() == 1;
    (alone && words[found] == SHARED && FLAG_WORDS.contains(&found)).then_some(found)
}

/// The lock in a mutex of ours; none if the mutex is the C library's.
///
/// # Safety
/// The mutex is initialised.
#[inline(always)]
pub(crate) unsafe fn lock_in<'a>(mutex: *mut libc::pthread_mutex_t) -> Option<&'a Lock> {
    let lock: *mut Lock = mutex.cast();
    // SAFETY: the mutex is initialised. Its kind does not change while it is in use, and the
    // bytes of a mutex of kind 0 are a lock, because only this library has written them.
    unsafe { ((*lock).kind == 0 && is_in_use()).then(|| &*lock) }
}

/// Initialises a mutex of ours.
///
/// # Safety
/// `mutex` is room for a mutex, which no other thread uses.
pub(crate) unsafe fn make_lock(mutex: *mut libc::pthread_mutex_t) {
    // SAFETY: the caller's promise; zeros are a free lock of kind 0.
    unsafe { mutex.write_bytes(0, 1) };
}

/// Marks a mutex as destroyed, so that the C library refuses it, as its own `destroy` does.
///
/// # Safety
/// The mutex is one of ours, and no other thread uses it.
pub(crate) unsafe fn spoil(mutex: *mut libc::pthread_mutex_t) {
    // SAFETY: the caller's promise.
    unsafe { (*mutex.cast::<Lock>()).kind = u32::MAX };
}

/// The condition in a condition variable of ours; none if it is the C library's.
///
/// # Safety
/// The condition variable is initialised.
#[inline(always)]
pub(crate) unsafe fn condition_in<'a>(
    condition: *mut libc::pthread_cond_t,
) -> Option<&'a Condition> {
    let word = flag_word();
    if word == ASIDE {
        return None;
    }
    let flags = condition.cast::<u32>().wrapping_add(word as usize);
    // SAFETY: within the condition variable. The C library counts in the same
    // word, atomically.
    let flags = unsafe { AtomicU32::from_ptr(flags) }.load(Ordering::Relaxed);
    // SAFETY: only this library writes into those that are not shared.
    (flags & SHARED == 0).then(|| unsafe { &*condition.cast::<Condition>() })
}

/// Initialises a condition variable of ours with the clock of its timed waits.
///
/// # Safety
/// `condition` is room for a condition variable, which no other thread uses.
pub(crate) unsafe fn make_condition(condition: *mut libc::pthread_cond_t, clock: libc::clockid_t) {
    // SAFETY: the caller's promise; zeros are a condition without waiters.
    unsafe {
        condition.write_bytes(0, 1);
        (*condition.cast::<Condition>()).attributes[CLOCK_ATTRIBUTE] = clock as u32;
    }
}

/// The clock of a condition's timed waits.
pub(crate) fn clock_of(condition: &Condition) -> libc::clockid_t {
    condition.attributes[CLOCK_ATTRIBUTE] as libc::clockid_t
}
