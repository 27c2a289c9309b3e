//! The lock without a value. `Mutex`, `RwLock` and the preload library are built on it.
//!
//! # State
//!
//! | bit | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `LOCKED` | a thread holds the lock | the thread that enters | the holder |
//! | `HEIR_EXISTS` | a waiter is awake and competes | a spinner, or the heir's waker | the heir |
//! | `PARKED` | the list is not empty | a waiter that parks | the thread that empties the list |
//! | `RESERVED` | only a due heir may enter | the due heir | that heir, or `unlock_fair` |
//!
//! The heir clears its bits when it enters or gives up, and `HEIR_EXISTS` also when it parks
//! again. `PARKED` is set and cleared inside the guard.
//!
//! ```text
//!                 lock is free
//!   newcomer ─────────────────────────────────────► holder ──unlock──► done
//!      │  locked                                      ▲    │
//!      │                           free (a newcomer   │    │ PARKED and no heir: wakes
//!      ▼                           may enter first)   │    │ the newest, or the oldest
//!   spins, if a core is free ─────────────────────────┤    │ when its turn has come
//!      │  still locked                                │    ▼
//!      └───────────► parked ◄──────still locked───── heir (awake, at most one)
//!                      ▲                              │
//!                      └──still locked, RESERVED───  due heir: sets RESERVED
//!                         stays set
//! ```
//!
//! # Rules
//!
//! * **Throttled succession.** An unlocker wakes a waiter only if there is no heir. So
//!   under load the holder, the heir and the newcomers are runnable, and all other threads
//!   sleep.
//! * **Barging.** An unlocked lock belongs to the first thread that takes it. Handing it to
//!   a sleeping thread would leave it idle for the time of a wake-up.
//! * **Last in, first out.** The newest waiter is the likeliest to have its stack and data
//!   in the caches still; waiters that have stepped back do not count as new. Among the
//!   four newest the unlocker prefers a waiter that ran on its own core: it runs there as
//!   soon as the unlocker sleeps. A waiter of another core displaces the thread that runs
//!   there, which may be working for all of them, or waits for that core while the
//!   unlocker's core is idle.
//! * **Fairness by time.** Once [`TURN_MICROS`] have passed, the waiter that has become the
//!   oldest is chosen instead, and it reserves the lock as soon as it *runs*. Each of n
//!   waiters is woken after n turns at most. If a due heir goes back to sleep because the
//!   holder stays too long, the reservation stays and the next unlock wakes that heir: at
//!   worst the lock is idle for one wake-up in each turn. The newest waiter is woken along
//!   with the oldest, as a newcomer: it may have been notified to do the work that all
//!   others wait for.
//! * **Stepping back.** A thread whose slice at the lock is over parks as a waiter that does
//!   not count as new; if all waiters near the front are such, the oldest is chosen (see
//!   `slices`). If no other thread takes its core although there is an heir, the heir waits
//!   for a different core: then the thread also wakes an old waiter of its own core, or else
//!   the oldest waiter, unless the lock is reserved.
//! * **Yielding to a late heir.** There are no turns while the heir waits for a core. Once a
//!   turn is long overdue, unlockers yield their cores now and then.
//! * **Waking after unlocking.** The store that unlocks is the last access to the lock's
//!   memory, so that the next holder may free it; waiters are woken after it.
//!
//! # No wake-up is lost
//!
//! A waiter parks only by an atomic step that sees `LOCKED` (or another thread's
//! `RESERVED`) and sets `PARKED`; by the same step an heir gives up its role. (A thread
//! that steps back from a free lock takes the lock before it parks, and then unlocks it.)
//! An unlocker clears `LOCKED` only by a step that sees no parked waiter, or an heir. So at
//! every moment with waiters there is a holder that will see them, or an heir that will
//! become a holder or park seeing one.

#[path = "lock/waiting.rs"]
mod waiting;

use crate::clock;
use crate::cores;
use crate::counts;
use crate::futex::Deadline;
use crate::guard::{Found, Guard};
use crate::hints;
use crate::slices;
use crate::spinning;
use crate::sync::{AtomicU32, Ordering, const_fn};
use crate::waiters::{DUE, HEIR, NOTIFIED, OWNER, Waiter, Waiters};

const LOCKED: u32 = 1;
const HEIR_EXISTS: u32 = 2;
const PARKED: u32 = 4;
const RESERVED: u32 = 8;

/// Microseconds after which the oldest waiter is preferred to the newest. Each such turn
/// costs about one more switch of threads.
pub const TURN_MICROS: u32 = 500;

/// Microseconds by which the oldest waiter's turn may be late before unlockers yield their
/// cores. A turn is late if the present heir has not got a core.
const OVERDUE_MICROS: u32 = 1000;

/// A lock without a value. It has 40 bytes; all zeros are an unlocked lock.
#[repr(C)]
pub struct Lock {
    state: AtomicU32,
    /// Protects `waiters`; only inside it `turn` is written and `PARKED` set or cleared.
    guard: Guard,
    /// Moment at which the oldest waiter is due, as [`clock::micros`] counts.
    turn: AtomicU32,
    /// The lock does not use this field: it lies where `pthread_mutex_t` keeps its kind.
    pub kind: u32,
    /// Number of the holder's slot in the hint page; 0 without a page or a holder.
    pub(crate) holder: AtomicU32,
    waiters: Waiters,
}

/// How a thread may compete for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Newcomer,
    /// `HEIR_EXISTS` is set on behalf of this thread.
    Heir,
    /// An heir in its turn: it may also set `RESERVED`.
    DueHeir,
    /// A fair unlock has handed the lock to this thread.
    Owner,
}

impl Role {
    /// Role that a waiter's word assigns; none unless the word is final.
    pub(crate) fn of_word(word: u32) -> Option<Role> {
        match word {
            HEIR => Some(Role::Heir),
            DUE => Some(Role::DueHeir),
            OWNER => Some(Role::Owner),
            NOTIFIED => Some(Role::Newcomer),
            _ => None,
        }
    }

    /// State bits that belong to a thread of this role; it clears them when it enters.
    fn bits(self) -> u32 {
        match self {
            Role::Newcomer | Role::Owner => 0,
            Role::Heir => HEIR_EXISTS,
            Role::DueHeir => HEIR_EXISTS | RESERVED,
        }
    }
}

/// Waiters that an unlocker has unlinked and will wake; at least one.
struct Chosen {
    /// Its turn has come, or all waiters near the front have stepped back.
    oldest: Option<*const Waiter>,
    newest: Option<*const Waiter>,
}

impl Chosen {
    /// # Safety
    /// The caller has unlinked the waiters itself.
    unsafe fn wake(self) {
        let word_of_newest = if self.oldest.is_some() {
            NOTIFIED
        } else {
            HEIR
        };
        for (waiter, word) in [(self.oldest, DUE), (self.newest, word_of_newest)] {
            if let Some(waiter) = waiter {
                // SAFETY: the caller's promise.
                unsafe { Waiter::wake(waiter, word) };
            }
        }
    }
}

/// The list of a lock while its guard is held.
struct Inside<'a>(&'a Lock);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.guard.leave();
    }
}

impl Default for Lock {
    fn default() -> Lock {
        Lock::new()
    }
}

impl Lock {
    const_fn! {
        /// An unlocked lock.
        pub fn new() -> Lock {
            Lock {
                state: AtomicU32::new(0),
                guard: Guard::new(),
                turn: AtomicU32::new(0),
                kind: 0,
                holder: AtomicU32::new(0),
                waiters: Waiters::new(),
            }
        }
    }

    /// Acquires the lock, waiting without a limit.
    #[inline]
    pub fn lock(&self) {
        if !self.step(0, LOCKED, Ordering::Acquire) {
            self.acquire(Role::Newcomer, None);
        }
        self.entered();
    }

    /// Acquires the lock, or returns false once the deadline has passed.
    #[inline]
    pub fn lock_until(&self, deadline: &Deadline) -> bool {
        let entered =
            self.step(0, LOCKED, Ordering::Acquire) || self.acquire(Role::Newcomer, Some(deadline));
        if entered {
            self.entered();
        }
        entered
    }

    /// Acquires the lock if it is free and not reserved for a due heir.
    #[inline]
    pub fn try_lock(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (LOCKED | RESERVED) == 0 {
            if self.step(state, state | LOCKED, Ordering::Acquire) {
                self.entered();
                return true;
            }
            state = self.state.load(Ordering::Relaxed);
        }
        // The heir that made the reservation may be a thread of the parent process.
        state & LOCKED == 0 && self.guard.is_foreign() && {
            drop(self.enter());
            self.try_lock()
        }
    }

    /// The address, by which a thread remembers the lock; never dereferenced.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Whether a thread holds the lock; the answer may be outdated when it is returned.
    pub fn is_locked(&self) -> bool {
        self.state.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Releases the lock and wakes a waiter, if there is one and no heir is awake.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        self.leaves();
        if !self.step(LOCKED, 0, Ordering::Release) {
            self.unlock_slowly();
        }
    }

    /// Hands the lock to the oldest waiter, whether it is awake or not; releases the lock
    /// if there is none. This is slow: the lock is idle until that thread has been woken
    /// and has got a core. Use it where a strict order matters more than throughput.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        self.leaves();
        match self.take_oldest() {
            // SAFETY: this thread alone has unlinked it, and it has no final word yet.
            Some(waiter) => unsafe { Waiter::wake(waiter, OWNER) },
            None => self.unlock_slowly(),
        }
    }

    #[inline(always)]
    fn entered(&self) {
        slices::entered();
        hints::entered(&self.holder);
    }

    #[inline(always)]
    fn leaves(&self) {
        slices::left();
        hints::left(&self.holder);
    }

    #[inline]
    fn step(&self, from: u32, to: u32, success: Ordering) -> bool {
        self.state
            .compare_exchange(from, to, success, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn unlock_slowly(&self) {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            assert!(
                state & LOCKED != 0,
                "a lock that no thread held was unlocked"
            );
            if state & (PARKED | HEIR_EXISTS) != PARKED {
                let is_overdue = state & PARKED != 0
                    && !slices::may_step_back(self.address())
                    && self.is_overdue();
                if self.step(state, state & !LOCKED, Ordering::Release) {
                    if is_overdue {
                        spinning::yield_now_and_then();
                    }
                    return;
                }
            } else if self.step(state, state | HEIR_EXISTS, Ordering::Relaxed) {
                // From here on no other thread becomes heir.
                if let Some(chosen) = self.choose() {
                    self.state.fetch_sub(LOCKED, Ordering::Release);
                    // SAFETY: this thread alone has unlinked them.
                    return unsafe { chosen.wake() };
                }
                // The list has become empty since the state was read.
                self.state.fetch_and(!HEIR_EXISTS, Ordering::Relaxed);
            }
        }
    }

    /// Whether the oldest waiter has been due for [`OVERDUE_MICROS`].
    fn is_overdue(&self) -> bool {
        let turn = self.turn.load(Ordering::Relaxed);
        clock::has_come(turn.wrapping_add(OVERDUE_MICROS), clock::micros())
    }

    /// Unlinks the waiters to wake; none if the list is empty. This is one of the newest,
    /// preferably of this core, or the oldest if it is due or all waiters near the front
    /// have stepped back. Along with an oldest that is due goes the newest, as a newcomer: it
    /// may have been notified to do the work that all others wait for.
    fn choose(&self) -> Option<Chosen> {
        let here = cores::here();
        let inside = self.enter();
        let now = clock::micros();
        let reserved = self.state.load(Ordering::Relaxed) & RESERVED != 0;
        let due = reserved || clock::has_come(self.turn.load(Ordering::Relaxed), now);
        // SAFETY: this thread holds the guard.
        let chosen = unsafe {
            let oldest = due.then(|| self.waiters.pop_back()).flatten();
            let newest = self.waiters.pop_newest((!due).then_some(here));
            let has_none = oldest.is_none() && newest.is_none();
            let oldest = oldest.or_else(|| has_none.then(|| self.waiters.pop_back()).flatten());
            Chosen { oldest, newest }
        };
        if chosen.oldest.is_some() {
            self.turn
                .store(now.wrapping_add(TURN_MICROS), Ordering::Relaxed);
        }
        inside.note_if_empty();
        (chosen.oldest.is_some() || chosen.newest.is_some()).then_some(chosen)
    }

    /// Unlinks the oldest waiter, with its reservation.
    fn take_oldest(&self) -> Option<*const Waiter> {
        let inside = self.enter();
        // SAFETY: this thread holds the guard.
        let oldest = unsafe { self.waiters.pop_back() }?;
        inside.note_if_empty();
        let state = self.state.load(Ordering::Relaxed);
        if state & (RESERVED | HEIR_EXISTS) == RESERVED {
            // The reservation was made by a due heir that sleeps: by this oldest waiter.
            self.state.fetch_and(!RESERVED, Ordering::Relaxed);
        }
        Some(oldest)
    }

    /// Takes over a waiter that a condition variable has claimed: parks it if there is a
    /// holder or an heir, which will leave the lock later, else wakes it as the heir.
    ///
    /// # Safety
    /// The caller has claimed the waiter, and the waiter has no final word yet.
    pub(crate) unsafe fn adopt(&self, waiter: *const Waiter) {
        let inside = self.enter();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & (LOCKED | HEIR_EXISTS) == 0 {
                if self.step(state, state | HEIR_EXISTS, Ordering::Relaxed) {
                    drop(inside);
                    // SAFETY: the caller's promise.
                    return unsafe { Waiter::wake(waiter, HEIR) };
                }
            } else if self.step(state, state | PARKED, Ordering::Relaxed) {
                counts::moves();
                return inside.link(waiter, false);
            }
        }
    }

    /// Enters the guard; in a forked child, drops the waiters of the parent process first.
    fn enter(&self) -> Inside<'_> {
        if self.guard.enter() == Found::AnotherProcess {
            // SAFETY: this thread holds the guard.
            unsafe { self.waiters.forget() };
            let of_parent = HEIR_EXISTS | PARKED | RESERVED;
            self.state.fetch_and(!of_parent, Ordering::Relaxed);
        }
        Inside(self)
    }
}

impl Inside<'_> {
    /// Links a waiter; the caller has set `PARKED`.
    fn link(&self, waiter: *const Waiter, at_the_back: bool) {
        let lock = self.0;
        // SAFETY: this thread holds the guard; the waiter stays until it is unlinked.
        unsafe {
            if lock.waiters.is_empty() {
                let turn = clock::micros().wrapping_add(TURN_MICROS);
                lock.turn.store(turn, Ordering::Relaxed);
            }
            if at_the_back {
                lock.waiters.push_back(waiter);
            } else {
                lock.waiters.push_front(waiter);
            }
        }
    }

    /// Clears `PARKED` if the list is empty.
    fn note_if_empty(&self) {
        // SAFETY: this thread holds the guard.
        if unsafe { self.0.waiters.is_empty() } {
            self.0.state.fetch_and(!PARKED, Ordering::Relaxed);
        }
    }
}
