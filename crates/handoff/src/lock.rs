//! The lock itself, without a value: what `Mutex`, `RwLock` and the preload
//! library are made of.
//!
//! # State
//!
//! | bit | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `LOCKED` | somebody is inside | whoever enters | whoever leaves |
//! | `HEIR_EXISTS` | one waiter is awake and competes | a spinner, or the unlocker that wakes it | that waiter when it enters, or parks again |
//! | `PARKED` | the list is not empty | a waiter, inside the guard | whoever empties the list, inside the guard |
//! | `RESERVED` | an heir whose turn has come wants it: nobody else enters | that heir | that heir when it enters or gives up |
//!
//! ```text
//!                 lock, nobody there
//!   newcomer ─────────────────────────────────────► inside ──unlock──► gone
//!      │  locked                                      ▲    │
//!      │                          free (any newcomer  │    │ PARKED and no heir:
//!      ▼                           may be quicker)    │    │ the newest, or the oldest
//!   spins, if a core is free ─────────────────────────┤    │ when its turn has come
//!      │  no luck                                     │    ▼
//!      └───────────► parked ◄──────────no luck────── heir (awake, at most one)
//!                      ▲                              │
//!                      └──no luck, RESERVED stays──  due heir: RESERVED
//! ```
//!
//! # Rules
//!
//! * **Throttled succession.** Whoever unlocks wakes a waiter only if there is
//!   no heir. Under load there are a holder, an heir, and whoever comes along:
//!   as many runnable threads as cores, the rest sleep.
//! * **Barging.** An unlocked lock belongs to whoever takes it. Handing it to a
//!   sleeping thread would leave it idle for the time of a wake-up.
//! * **Last in, first out.** The newest waiter is the one whose stack and data
//!   are still in the caches; those that have stepped back do not count as new. Of the
//!   four newest rather one that ran on the unlocker's core: it runs there as soon as the
//!   unlocker sleeps. Any other disturbs who has its core, such as a thread that works for
//!   all of them, and may wait for it while the unlocker's is idle.
//! * **Fairness by time.** The waiter that has become the oldest is chosen
//!   instead once [`TURN_MICROS`] have passed, and reserves the lock as soon as it
//!   *runs*. With n waiters each is woken after n turns at most. If the holder stays
//!   so long that a due heir goes back to sleep, the reservation stays and the
//!   next unlock wakes that heir: idle for a wake-up once in a turn, at worst.
//!   The newest is woken along with it, as a newcomer: it may have been notified to do
//!   what all the others wait for.
//! * **Whoever has had its slice steps back.** It parks so that nobody prefers it for
//!   being new, and where only such are parked the oldest is chosen: see `slices`. If
//!   nobody has use for its core, because the heir waits for another, it wakes an old waiter
//!   of this core, or else the oldest, of an unreserved lock.
//! * **Whoever leaves makes room.** While the heir waits for a core there are no turns.
//!   Once a turn is long overdue those who leave the lock yield theirs, now and then.
//! * **Nobody is woken under the lock**, and the store that unlocks is the last
//!   access to the lock's memory, so that whoever enters next may free it.
//!
//! # No wake-up is lost
//!
//! A waiter parks only by an atomic step that sees `LOCKED` (or another's
//! `RESERVED`) and sets `PARKED`; the same step gives up its being heir. (One that
//! steps back from a free lock is the holder when it parks, and then an unlocker.) An
//! unlocker clears `LOCKED` only by a step that sees either nobody parked, or an
//! heir. So at every moment with waiters there is a holder who will see them, or
//! an heir that will become a holder or park seeing one.

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

/// Time after which the oldest waiter is preferred to the newest. Each turn
/// costs about one more switch of threads.
pub const TURN_MICROS: u32 = 500;

/// Time after its turn that the oldest waits for an heir that has no core yet, before
/// those who leave the lock give theirs away.
const OVERDUE_MICROS: u32 = 1000;

/// A lock without a value, 40 bytes, valid when all of them are 0.
#[repr(C)]
pub struct Lock {
    state: AtomicU32,
    /// Around `waiters`, `turn` and the setting and clearing of `PARKED`.
    guard: Guard,
    /// When the waiter at the back will be due, in [`clock::micros`].
    turn: AtomicU32,
    /// Not ours: `pthread_mutex_t` keeps its kind here.
    pub kind: u32,
    /// Slot of the hint page of whoever is inside; 0 without a page.
    pub(crate) holder: AtomicU32,
    waiters: Waiters,
}

/// What a thread that wants in has been told so far.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Newcomer,
    /// `HEIR_EXISTS` is set for it.
    Heir,
    /// The same, and it may reserve.
    DueHeir,
    /// The lock was handed to it.
    Owner,
}

impl Role {
    /// The role that a final word of a waiter gives.
    pub(crate) fn of_word(word: u32) -> Option<Role> {
        match word {
            HEIR => Some(Role::Heir),
            DUE => Some(Role::DueHeir),
            OWNER => Some(Role::Owner),
            NOTIFIED => Some(Role::Newcomer),
            _ => None,
        }
    }

    /// The bits that it takes along when it enters.
    fn bits(self) -> u32 {
        match self {
            Role::Newcomer | Role::Owner => 0,
            Role::Heir => HEIR_EXISTS,
            Role::DueHeir => HEIR_EXISTS | RESERVED,
        }
    }
}

/// Waiters that were unlinked to be woken; one at least.
struct Chosen {
    /// Its turn has come.
    oldest: Option<*const Waiter>,
    newest: Option<*const Waiter>,
}

impl Chosen {
    /// # Safety
    /// Unlinked by the caller alone.
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

    /// Enters, waiting as long as it takes.
    #[inline]
    pub fn lock(&self) {
        if !self.step(0, LOCKED, Ordering::Acquire) {
            self.acquire(Role::Newcomer, None);
        }
        self.entered();
    }

    /// Enters before the deadline, or returns false.
    #[inline]
    pub fn lock_until(&self, deadline: &Deadline) -> bool {
        let entered =
            self.step(0, LOCKED, Ordering::Acquire) || self.acquire(Role::Newcomer, Some(deadline));
        if entered {
            self.entered();
        }
        entered
    }

    /// Enters if nobody is inside and nobody's turn has come.
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
        // The heir of a reservation may have stayed behind in another process.
        state & LOCKED == 0 && self.guard.is_foreign() && {
            drop(self.enter());
            self.try_lock()
        }
    }

    /// Whether somebody is inside; may be wrong when it is returned.
    pub fn is_locked(&self) -> bool {
        self.state.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Leaves; wakes a waiter if there is one and no other is awake.
    ///
    /// # Safety
    /// The caller is inside.
    #[inline]
    pub unsafe fn unlock(&self) {
        self.leaves();
        if !self.step(LOCKED, 0, Ordering::Release) {
            self.unlock_slowly();
        }
    }

    /// Leaves and hands the lock to the oldest waiter, awake or not. Slow: the
    /// lock is idle until that thread has been woken and got a core. Use it
    /// where a strict order matters more than anything else.
    ///
    /// # Safety
    /// The caller is inside.
    pub unsafe fn unlock_fair(&self) {
        self.leaves();
        match self.take_oldest() {
            // SAFETY: it was unlinked by us alone and waits to be told.
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
                "unlocked a lock that nobody had locked"
            );
            if state & (PARKED | HEIR_EXISTS) != PARKED {
                let is_overdue =
                    state & PARKED != 0 && !slices::may_step_back(self) && self.is_overdue();
                if self.step(state, state & !LOCKED, Ordering::Release) {
                    if is_overdue {
                        spinning::give_way();
                    }
                    return;
                }
            } else if self.step(state, state | HEIR_EXISTS, Ordering::Relaxed) {
                // From here on nobody else becomes heir.
                if let Some(chosen) = self.choose() {
                    self.state.fetch_sub(LOCKED, Ordering::Release);
                    // SAFETY: unlinked by us alone.
                    return unsafe { chosen.wake() };
                }
                // All have given up meanwhile.
                self.state.fetch_and(!HEIR_EXISTS, Ordering::Relaxed);
            }
        }
    }

    /// Whether the oldest should have been chosen long ago, but the heir has not come.
    fn is_overdue(&self) -> bool {
        let turn = self.turn.load(Ordering::Relaxed);
        clock::has_come(turn.wrapping_add(OVERDUE_MICROS), clock::micros())
    }

    /// Unlinks those that are to be woken: one of the newest, rather of this core, or the
    /// oldest in its turn or if all have stepped back. The very newest comes along with the
    /// oldest, as a newcomer, because often nobody gets on without it: it may have been
    /// notified to do what all others wait for.
    fn choose(&self) -> Option<Chosen> {
        let here = cores::here();
        let inside = self.enter();
        let now = clock::micros();
        let reserved = self.state.load(Ordering::Relaxed) & RESERVED != 0;
        let due = reserved || clock::has_come(self.turn.load(Ordering::Relaxed), now);
        // SAFETY: inside.
        let chosen = unsafe {
            let oldest = due.then(|| self.waiters.pop_back()).flatten();
            let newest = self.waiters.pop_newest((!due).then_some(here));
            let nobody = oldest.is_none() && newest.is_none();
            let oldest = oldest.or_else(|| nobody.then(|| self.waiters.pop_back()).flatten());
            Chosen { oldest, newest }
        };
        if chosen.oldest.is_some() {
            self.turn
                .store(now.wrapping_add(TURN_MICROS), Ordering::Relaxed);
        }
        inside.note_if_empty();
        (chosen.oldest.is_some() || chosen.newest.is_some()).then_some(chosen)
    }

    fn take_oldest(&self) -> Option<*const Waiter> {
        let inside = self.enter();
        // SAFETY: inside.
        let oldest = unsafe { self.waiters.pop_back() }?;
        inside.note_if_empty();
        let state = self.state.load(Ordering::Relaxed);
        if state & (RESERVED | HEIR_EXISTS) == RESERVED {
            // The reservation is of a sleeper, which is the oldest: ours now.
            self.state.fetch_and(!RESERVED, Ordering::Relaxed);
        }
        Some(oldest)
    }

    /// Takes a waiter that a condition variable has claimed: parks it if there is a
    /// holder or an heir to wake it later, else wakes it as the heir.
    ///
    /// # Safety
    /// The waiter was claimed by the caller and sleeps.
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

    fn enter(&self) -> Inside<'_> {
        if self.guard.enter() == Found::AnotherProcess {
            // SAFETY: inside.
            unsafe { self.waiters.forget() };
            let ghosts = HEIR_EXISTS | PARKED | RESERVED;
            self.state.fetch_and(!ghosts, Ordering::Relaxed);
        }
        Inside(self)
    }
}

impl Inside<'_> {
    /// Links a waiter for whom `PARKED` has been set.
    fn link(&self, waiter: *const Waiter, at_the_back: bool) {
        let lock = self.0;
        // SAFETY: inside; the waiter sleeps until it is unlinked.
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

    fn note_if_empty(&self) {
        // SAFETY: inside.
        if unsafe { self.0.waiters.is_empty() } {
            self.0.state.fetch_and(!PARKED, Ordering::Relaxed);
        }
    }
}
