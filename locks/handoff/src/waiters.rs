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
//! A waiter is in at most one list, and its links are accessed only inside that list's
//! guard. Its word, which any thread may change, says what has become of the waiter:
//!
//! ```text
//!   ASLEEP ──► HEIR | DUE | OWNER      by a lock, after unlinking it
//!   ASLEEP ──► CLAIMED ──► HEIR | ...  by a condition variable, which then
//!                                      gives the waiter to its lock
//!   ASLEEP ──► LEAVING                 by the waiter: its deadline passed first
//!   ASLEEP ◄─► WATCHING                by the waiter, before it sleeps
//!   WATCHING ──► CLAIMED_WATCHING ──► NOTIFIED   by a condition variable; the waiter
//!                                      changes it to CLAIMED if NOTIFIED takes long
//! ```
//!
//! Once the word has a final value (`HEIR`, `DUE`, `OWNER`, `NOTIFIED`) the waiter may return
//! and its stack frame may vanish: the thread that wrote the value no longer touches the
//! waiter.

use crate::cores;
use crate::counts;
use crate::futex::{self, Deadline};
use crate::sync::{AtomicU32, Ordering, UnsafeCell, const_fn};

/// No thread has chosen the waiter yet.
pub(crate) const ASLEEP: u32 = 0;
/// A condition variable has notified the waiter and is about to move or wake it.
pub(crate) const CLAIMED: u32 = 1;
/// The waiter no longer waits for a condition variable and will unlink itself.
pub(crate) const LEAVING: u32 = 2;
/// The waiter is the lock's heir: it may compete, and no other is woken until it has.
pub(crate) const HEIR: u32 = 3;
/// The waiter is the heir and its turn has come: no other thread may overtake it.
pub(crate) const DUE: u32 = 4;
/// The waiter holds the lock: a fair unlock has handed it over.
pub(crate) const OWNER: u32 = 5;
/// The waiter was notified, or woken in addition to an heir, and competes as a newcomer.
pub(crate) const NOTIFIED: u32 = 6;
/// No thread has chosen the waiter yet, and it polls its word before it sleeps.
pub(crate) const WATCHING: u32 = 7;
/// A condition variable has notified the waiter while it polled its word.
pub(crate) const CLAIMED_WATCHING: u32 = 8;

/// Waiters at the front that [`Waiters::pop_newest`] looks at. Those further back have been
/// overtaken so often that they count as old.
const LOOKS_FROM_FRONT: usize = 4;

/// Waiters at the back that [`Waiters::pop_successor`] looks at.
const LOOKS_FROM_BACK: usize = 8;

/// A link of the list.
type Link = UnsafeCell<*const Waiter>;

pub(crate) struct Waiter {
    /// Towards the back.
    next: Link,
    /// Towards the front.
    previous: Link,
    /// Whether it is in a list.
    linked: UnsafeCell<bool>,
    /// The lock that a waiter of a condition variable needs afterwards; null if its mutex is
    /// of another library, so that it has to be woken instead of moved.
    pub(crate) lock: *const crate::lock::Lock,
    /// Its slice was over when it parked: it does not count as new.
    has_stepped_back: bool,
    /// The core on which the thread ran when it began to wait, and will mostly run again.
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

    /// A waiter that steps back because its slice at the lock is over.
    pub(crate) fn stepping_back(lock: *const crate::lock::Lock) -> Waiter {
        Waiter {
            has_stepped_back: true,
            ..Waiter::new(lock)
        }
    }

    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Address of the word on which the waiter sleeps.
    pub(crate) fn address(&self) -> *const AtomicU32 {
        &raw const self.word
    }

    /// Changes the word from `from` to `to`; false if it is not `from`.
    pub(crate) fn step(&self, from: u32, to: u32) -> bool {
        self.word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Marks the waiter as notified; false if it was notified before or is leaving. Three
    /// attempts are enough: a waiter begins to watch, and ends to, once at most.
    fn claim(&self) -> bool {
        self.decide(CLAIMED) || self.step(WATCHING, CLAIMED_WATCHING) || self.decide(CLAIMED)
    }

    /// Changes `ASLEEP` to `word`. A notifier and a waiter that gives up compete by this
    /// step, which succeeds for one of them.
    pub(crate) fn decide(&self, word: u32) -> bool {
        self.step(ASLEEP, word)
    }

    /// Sleeps while the word is `expected`; false once the deadline has passed.
    pub(crate) fn sleep(&self, expected: u32, deadline: Option<&Deadline>) -> bool {
        counts::parks();
        futex::wait(&self.word, expected, deadline)
    }

    /// Gives the waiter its final word and wakes it; the waiter may be gone afterwards.
    ///
    /// # Safety
    /// The waiter is in no list, has no final word yet, and the caller alone has chosen it.
    pub(crate) unsafe fn wake(waiter: *const Waiter, word: u32) {
        match word {
            HEIR => counts::wakes(),
            DUE => counts::turns(),
            OWNER => counts::hand_offs(),
            _ => {}
        }
        // SAFETY: the waiter exists until the store below.
        let address = unsafe { &raw const (*waiter).word };
        // SAFETY: as above; afterwards only the address is used.
        unsafe { (*address).store(word, Ordering::Release) };
        futex::wake_one(address);
    }
}

/// A list of waiters; its functions are called inside its guard.
#[repr(C)]
pub(crate) struct Waiters {
    front: Link,
    back: Link,
}

// SAFETY: the links are used inside a guard, which orders the accesses of
// different threads; the waiters live until they are unlinked.
unsafe impl Send for Waiters {}
// SAFETY: as above.
unsafe impl Sync for Waiters {}

fn get<T: Copy>(cell: &UnsafeCell<T>) -> T {
    // SAFETY: inside the guard no other thread uses the cell.
    cell.with(|value| unsafe { *value })
}

fn set<T>(cell: &UnsafeCell<T>, to: T) {
    // SAFETY: inside the guard no other thread uses the cell.
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

    /// Empties the list, because its waiters are threads of another process.
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

    /// Links a waiter as the newest.
    ///
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

    /// Links a waiter as the oldest.
    ///
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

    /// Unlinks the newest waiter that has not stepped back, if there is one among the first
    /// [`LOOKS_FROM_FRONT`]; prefers the newest of those that ran on `core`.
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
        // SAFETY: the caller holds the guard, and linked waiters are alive.
        unsafe { self.pop(newest) }
    }

    /// Unlinks the oldest other waiter that ran on the same core as `leaving`, if there is
    /// one among the last [`LOOKS_FROM_BACK`]; else the oldest, which may be `leaving` itself.
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
                // SAFETY: the caller holds the guard, and linked waiters are alive.
                return unsafe { self.pop(waiter) };
            }
            waiter = get(&candidate.previous);
        }
        // SAFETY: as above.
        unsafe { self.pop_back() }
    }

    /// Unlinks the oldest waiter.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn pop_back(&self) -> Option<*const Waiter> {
        // SAFETY: the caller holds the guard, and linked waiters are alive.
        unsafe { self.pop(get(&self.back)) }
    }

    unsafe fn pop(&self, waiter: *const Waiter) -> Option<*const Waiter> {
        if waiter.is_null() {
            return None;
        }
        // SAFETY: the caller holds the guard and found the waiter in this list.
        let was_linked = unsafe { self.unlink(waiter) };
        assert!(was_linked, "a waiter in a list was not marked as linked");
        Some(waiter)
    }

    /// Unlinks the waiter; false if it was unlinked before.
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

    /// Claims and unlinks the oldest waiter that can be claimed. One that is leaving stays in
    /// the list until it unlinks itself.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn claim_oldest(&self) -> Option<*const Waiter> {
        let mut waiter = get(&self.back);
        // SAFETY: linked waiters are alive.
        while let Some(candidate) = unsafe { waiter.as_ref() } {
            if candidate.claim() {
                // SAFETY: the caller holds the guard.
                unsafe { self.unlink(candidate) };
                return Some(waiter);
            }
            waiter = get(&candidate.previous);
        }
        None
    }

    /// Claims and unlinks all waiters that can be claimed. Returns them, chained by their own
    /// links with the newest first, and their number.
    ///
    /// # Safety
    /// Inside the guard.
    pub(crate) unsafe fn claim_all(&self) -> (Claimed, usize) {
        let mut first = std::ptr::null();
        let mut count = 0;
        // SAFETY: the caller holds the guard; no other thread uses a claimed waiter's links.
        while let Some(waiter) = unsafe { self.claim_oldest() } {
            // SAFETY: as above.
            unsafe { set(&(*waiter).next, first) };
            first = waiter;
            count += 1;
        }
        (Claimed { first }, count)
    }

    /// Whether every waiter in the list is about to unlink itself.
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
    // SAFETY: the caller holds the guard and the waiter is alive.
    unsafe {
        assert!(!get(&(*waiter).linked), "a waiter can be in one list only");
        set(&(*waiter).linked, true);
    }
}

/// Waiters that were claimed together and have yet to be moved or woken.
pub(crate) struct Claimed {
    first: *const Waiter,
}

impl Iterator for Claimed {
    type Item = *const Waiter;

    fn next(&mut self) -> Option<*const Waiter> {
        let waiter = self.first;
        // SAFETY: a claimed waiter exists until it has its final word, which is later.
        self.first = unsafe { get(&waiter.as_ref()?.next) };
        Some(waiter)
    }
}
