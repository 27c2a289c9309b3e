//! Waiting threads, linked through their own stacks.
//!
//! ```text
//!   front (newest)                        back (oldest)
//!   ┌──────────┐ next   ┌──────────┐ next   ┌──────────┐
//!   │ waiter C ├───────►│ waiter B ├───────►│ waiter A │
//!   │          │◄───────┤          │◄───────┤          │
//!   └──────────┘   prev └──────────┘   prev └──────────┘
//! ```
//!
//! A waiter is in at most one list; links belong to whoever has entered that
//! list's guard. Its word belongs to everybody and says what became of it:
//!
//! ```text
//!   ASLEEP ──► HEIR | DUE | OWNER      by a lock, after unlinking it
//!   ASLEEP ──► CLAIMED ──► HEIR | ...  by a condition variable, which then
//!                                      gives the waiter to its lock
//!   ASLEEP ──► LEAVING                 by itself: its time was up first
//!   ASLEEP ◄─► WATCHING                by itself, before it sleeps
//!   WATCHING ──► CLAIMED_WATCHING ──► NOTIFIED   by a condition variable; CLAIMED
//!                                      by itself, if that takes long
//! ```
//!
//! Once the word has one of the final values the waiter may return and its
//! frame may vanish: whoever writes it touches nothing of the waiter any more.

use crate::cores;
use crate::counts;
use crate::futex::{self, Deadline};
use crate::sync::{AtomicU32, Ordering, UnsafeCell, const_fn};

/// Nobody has chosen it yet.
pub(crate) const ASLEEP: u32 = 0;
/// A condition variable has notified it and decides where it goes.
pub(crate) const CLAIMED: u32 = 1;
/// It waits for a condition variable no longer, and will unlink itself.
pub(crate) const LEAVING: u32 = 2;
/// It may compete for the lock, and nobody else is woken meanwhile.
pub(crate) const HEIR: u32 = 3;
/// The same for a waiter whose turn has come: nobody may overtake it any more.
pub(crate) const DUE: u32 = 4;
/// The lock is its own already.
pub(crate) const OWNER: u32 = 5;
/// It was notified, or woken beside an heir, and has to compete like a newcomer.
pub(crate) const NOTIFIED: u32 = 6;
/// Nobody has chosen it yet, and it looks by itself before it sleeps.
pub(crate) const WATCHING: u32 = 7;
/// A condition variable has notified it while it looked.
pub(crate) const CLAIMED_WATCHING: u32 = 8;

/// Waiters at the front that are looked at for one that has not stepped back, or ran on a
/// certain core. Those behind have been overtaken so often that they are as good as old.
const LOOKS_FROM_FRONT: usize = 4;

/// Waiters at the back that are looked at for one of the same core.
const LOOKS_FROM_BACK: usize = 8;

/// A link of the list.
type Link = UnsafeCell<*const Waiter>;

pub(crate) struct Waiter {
    /// Towards the back.
    next: Link,
    /// Towards the front.
    previous: Link,
    /// Inside the guard: is it in the list?
    linked: UnsafeCell<bool>,
    /// The lock that a waiter of a condition variable will need; null when
    /// it belongs to somebody else and notifying means waking.
    pub(crate) lock: *const crate::lock::Lock,
    /// Nobody prefers it for being new.
    has_stepped_back: bool,
    /// Where it ran when it began to wait, and will mostly run again.
    pub(crate) core: u32,
    word: AtomicU32,
}

impl Waiter {
    pub(crate) fn new(lock: *const crate::lock::Lock) -> Waiter {
        Waiter {
            next: UnsafeCell::new(std::ptr::null()),
            previous: UnsafeCell::new(std::ptr::null()),
            linked: UnsafeCell::new(false),
            lock,
            has_stepped_back: false,
            core: cores::here(),
            word: AtomicU32::new(ASLEEP),
        }
    }

    /// One that has had its slice.
    pub(crate) fn stepping_back(lock: *const crate::lock::Lock) -> Waiter {
        Waiter {
            has_stepped_back: true,
            ..Waiter::new(lock)
        }
    }

    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Where it sleeps.
    pub(crate) fn address(&self) -> *const AtomicU32 {
        &raw const self.word
    }

    /// One step of the word; false when it has become something else.
    pub(crate) fn step(&self, from: u32, to: u32) -> bool {
        self.word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Notifies it, if nobody has before and it is not leaving.
    fn claim(&self) -> bool {
        self.decide(CLAIMED) || self.step(WATCHING, CLAIMED_WATCHING) || self.decide(CLAIMED)
    }

    /// Decides between notifying and the end of patience; true for one of them.
    pub(crate) fn decide(&self, word: u32) -> bool {
        self.step(ASLEEP, word)
    }

    /// Sleeps while the word is `expected`; false once the deadline has passed.
    pub(crate) fn sleep(&self, expected: u32, deadline: Option<&Deadline>) -> bool {
        counts::parks();
        futex::wait(&self.word, expected, deadline)
    }

    /// Tells the waiter what it is and wakes it. Nobody else touches it then.
    ///
    /// # Safety
    /// The waiter is in no list, has no final word yet, and was chosen by the
    /// caller alone.
    pub(crate) unsafe fn wake(waiter: *const Waiter, word: u32) {
        counts::wakes(word);
        // SAFETY: it waits until the store below.
        let address = unsafe { &raw const (*waiter).word };
        // SAFETY: as above; afterwards only the address is used.
        unsafe { (*address).store(word, Ordering::Release) };
        futex::wake_one(address);
    }
}

/// A list; each of its functions wants to be called inside its guard.
#[repr(C)]
pub(crate) struct Waiters {
    front: Link,
    back: Link,
}

// SAFETY: the links are used inside a guard, whose enter and leave order
// accesses of different threads; the waiters live until they are unlinked.
unsafe impl Send for Waiters {}
// SAFETY: as above.
unsafe impl Sync for Waiters {}

fn get<T: Copy>(cell: &UnsafeCell<T>) -> T {
    // SAFETY: inside the guard nobody else uses the cell.
    cell.with(|value| unsafe { *value })
}

fn set<T>(cell: &UnsafeCell<T>, to: T) {
    // SAFETY: inside the guard nobody else uses the cell.
    cell.with_mut(|value| unsafe { *value = to });
}

impl Waiters {
    const_fn! {
        pub(crate) fn new() -> Waiters {
            Waiters {
                front: UnsafeCell::new(std::ptr::null()),
                back: UnsafeCell::new(std::ptr::null()),
            }
        }
    }

    /// Forgets waiters that do not exist in this process.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn forget(&self) {
        set(&self.front, std::ptr::null());
        set(&self.back, std::ptr::null());
    }

    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn is_empty(&self) -> bool {
        get(&self.front).is_null()
    }

    /// # Safety
    /// Inside the guard. The waiter is in no list and stays where it is until
    /// it is unlinked.
    pub(crate) unsafe fn push_front(&self, waiter: *const Waiter) {
        let next = get(&self.front);
        // SAFETY: the caller's promise, and linked waiters are alive.
        unsafe {
            mark_linked(waiter);
            set(&(*waiter).previous, std::ptr::null());
            set(&(*waiter).next, next);
            match next.as_ref() {
                Some(next) => set(&next.previous, waiter),
                None => set(&self.back, waiter),
            }
        }
        set(&self.front, waiter);
    }

    /// # Safety
    /// As for [`Waiters::push_front`].
    pub(crate) unsafe fn push_back(&self, waiter: *const Waiter) {
        let previous = get(&self.back);
        // SAFETY: the caller's promise, and linked waiters are alive.
        unsafe {
            mark_linked(waiter);
            set(&(*waiter).next, std::ptr::null());
            set(&(*waiter).previous, previous);
            match previous.as_ref() {
                Some(previous) => set(&previous.next, waiter),
                None => set(&self.front, waiter),
            }
        }
        set(&self.back, waiter);
    }

    /// The newest that has not stepped back, unlinked, if one is near the front; rather one
    /// of the given core.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn pop_newest(&self, core: Option<u32>) -> Option<*const Waiter> {
        let mut newest: *const Waiter = std::ptr::null();
        let mut waiter = get(&self.front);
        for _ in 0..LOOKS_FROM_FRONT {
            // SAFETY: linked waiters are alive.
            let Some(candidate) = (unsafe { waiter.as_ref() }) else {
                break;
            };
            if !candidate.has_stepped_back {
                let is_preferred = core.is_none_or(|core| core == candidate.core);
                if is_preferred || newest.is_null() {
                    newest = waiter;
                }
                if is_preferred {
                    break;
                }
            }
            waiter = get(&candidate.next);
        }
        // SAFETY: the caller is inside, and what is linked is alive.
        unsafe { self.pop(newest) }
    }

    /// The oldest that ran on the same core as `leaving`, if another than that is near the
    /// back; else the oldest, which may be `leaving` itself. Unlinked.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn pop_successor(&self, leaving: &Waiter) -> Option<*const Waiter> {
        let mut waiter = get(&self.back);
        for _ in 0..LOOKS_FROM_BACK {
            // SAFETY: linked waiters are alive.
            let Some(candidate) = (unsafe { waiter.as_ref() }) else {
                break;
            };
            if candidate.core == leaving.core && !std::ptr::eq(candidate, leaving) {
                // SAFETY: the caller is inside, and what is linked is alive.
                return unsafe { self.pop(waiter) };
            }
            waiter = get(&candidate.previous);
        }
        // SAFETY: as above.
        unsafe { self.pop_back() }
    }

    /// The oldest, unlinked.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn pop_back(&self) -> Option<*const Waiter> {
        // SAFETY: the caller is inside, and what is linked is alive.
        unsafe { self.pop(get(&self.back)) }
    }

    unsafe fn pop(&self, waiter: *const Waiter) -> Option<*const Waiter> {
        if waiter.is_null() {
            return None;
        }
        // SAFETY: the caller is inside and took it from this list.
        let was_linked = unsafe { self.unlink(waiter) };
        assert!(was_linked, "a waiter at the end of a list was not in it");
        Some(waiter)
    }

    /// Takes the waiter out; false when somebody has done so already.
    ///
    /// # Safety
    /// Inside the guard of the only list that the waiter can be in.
    pub(crate) unsafe fn unlink(&self, waiter: *const Waiter) -> bool {
        // SAFETY: the waiter and its neighbours are alive while linked.
        unsafe {
            if !get(&(*waiter).linked) {
                return false;
            }
            set(&(*waiter).linked, false);
            let (next, previous) = (get(&(*waiter).next), get(&(*waiter).previous));
            match previous.as_ref() {
                Some(previous) => set(&previous.next, next),
                None => set(&self.front, next),
            }
            match next.as_ref() {
                Some(next) => set(&next.previous, previous),
                None => set(&self.back, previous),
            }
        }
        true
    }

    /// Unlinks the first that can be claimed, oldest first.
    /// Whoever is leaving stays in: it unlinks itself.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn claim_oldest(&self) -> Option<*const Waiter> {
        let mut waiter = get(&self.back);
        // SAFETY: linked waiters are alive.
        while let Some(candidate) = unsafe { waiter.as_ref() } {
            if candidate.claim() {
                // SAFETY: the caller is inside.
                unsafe { self.unlink(candidate) };
                return Some(waiter);
            }
            waiter = get(&candidate.previous);
        }
        None
    }

    /// Claims all and strings them on their own links, newest first; their number.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn claim_all(&self) -> (Claimed, usize) {
        let mut first = std::ptr::null();
        let mut count = 0;
        // SAFETY: the caller is inside; the claimed are ours alone.
        while let Some(waiter) = unsafe { self.claim_oldest() } {
            // SAFETY: as above.
            unsafe { set(&(*waiter).next, first) };
            first = waiter;
            count += 1;
        }
        (Claimed { first }, count)
    }

    /// Whether everybody in the list is about to unlink itself.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn all_are_leaving(&self) -> bool {
        let mut waiter = get(&self.front);
        // SAFETY: linked waiters are alive.
        while let Some(linked) = unsafe { waiter.as_ref() } {
            if linked.word() != LEAVING {
                return false;
            }
            waiter = get(&linked.next);
        }
        true
    }
}

unsafe fn mark_linked(waiter: *const Waiter) {
    // SAFETY: the caller is inside the guard and the waiter is alive.
    unsafe {
        assert!(!get(&(*waiter).linked), "a waiter can be in one list only");
        set(&(*waiter).linked, true);
    }
}

/// Waiters that were notified together and have to be told.
pub(crate) struct Claimed {
    first: *const Waiter,
}

impl Iterator for Claimed {
    type Item = *const Waiter;

    fn next(&mut self) -> Option<*const Waiter> {
        let waiter = self.first;
        // SAFETY: a claimed waiter waits until it is told, which is after this.
        self.first = unsafe { get(&waiter.as_ref()?.next) };
        Some(waiter)
    }
}
