//! Locks that keep their throughput when there are far more threads than cores.
//!
//! ```
//! use std::thread;
//! use handoff::Mutex;
//!
//! let counter = Mutex::new(0);
//! thread::scope(|scope| {
//!     for _ in 0..64 {
//!         scope.spawn(|| *counter.lock() += 1);
//!     }
//! });
//! assert_eq!(counter.into_inner(), 64);
//! ```
//!
//! [`Mutex`], [`RwLock`] (through `lock_api`: swap the types where parking_lot's were),
//! [`Condvar`], and [`CommitQueue`] for group commit.
//!
//! # What goes wrong with 256 threads on 2 cores
//!
//! A lock that wakes a thread for each unlock, or a condition variable that wakes
//! threads which must then wait for the mutex, spends its time switching. A strictly
//! fair lock is worse: each hand-over waits until a sleeping thread has got a core.
//!
//! # What is done instead
//!
//! ```text
//!                ┌──────────── at most one heir is awake ───────────┐
//!   newcomers ──►│ lock │◄── heir ◄── newest parked waiter, or the  │
//!                │      │             oldest when its turn has come │
//!                └──────┘                                           │
//!   Condvar::notify ──► moves a waiter to the parked, wakes none ───┘
//! ```
//!
//! * An unlock wakes a waiter, the lock's *heir*, only if no other heir is awake already.
//! * Notifying a condition variable moves a waiter to the queue of its mutex instead of
//!   waking it.
//! * The newest waiter is woken first, because its stack and data are still in the caches.
//!   Among the four newest the unlocker prefers one that ran on its own core. Every 500 µs
//!   the oldest waiter is woken instead, and once it runs no other thread overtakes it: each
//!   of n waiters is chosen after n such turns at most.
//! * A thread that has used a lock for 500 µs lets the other waiters go first, unless other
//!   threads may depend on it: it holds another lock, or uses a condition variable with
//!   this one.
//! * A thread spins only while a core is free, and wakes others only after it has unlocked.
//! * Nothing is allocated: waiters are linked through their own stacks.
//!
//! The sources of `lock`, `condition` and `waiters` explain the details.
//!
//! # What it is not
//!
//! With few threads a mutex of the standard library is as good. A plain mutex around
//! little work gains little here; condition variables and writer queues gain most.
//! `unlock_fair` exists for `lock_api`'s sake and is slow by nature.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod clock;
mod commit_queue;
mod condition;
mod condvar;
mod cores;
mod counts;
mod fork;
mod futex;
mod guard;
pub mod hints;
mod lock;
mod mutex;
mod patience;
mod process;
mod rw_lock;
mod slices;
mod spinning;
mod sync;
mod waiters;
// Declared here and not in `waiters`: the models compile that file against other atomics.
#[cfg(test)]
#[path = "waiters/tests.rs"]
mod waiters_tests;

pub use commit_queue::{CommitQueue, Group, Member, Unanswered};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use patience::Patience;
pub use rw_lock::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks and conditions without values, for callers that provide the memory and uphold the
/// safety contracts themselves.
pub mod raw {
    pub use crate::condition::{Condition, Ticket, Wake};
    pub use crate::counts::{Counts, count_from_now, counts};
    pub use crate::fork::forked;
    pub use crate::futex::Deadline;
    pub use crate::lock::{Lock, TURN_MICROS};
}
