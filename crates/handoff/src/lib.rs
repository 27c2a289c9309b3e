//! Locks that keep their throughput when there are far more threads than cores.
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
//!   newcomers ──►│ lock │◄── heir ◄── newest of the parked, or the  │
//!                │      │             oldest when its turn has come │
//!                └──────┘                                           │
//!   Condvar::notify ──► moves a waiter to the parked, wakes nobody ─┘
//! ```
//!
//! * an unlock wakes a waiter only if no other is awake already;
//! * notifying moves a waiter to the queue of the mutex instead of waking it;
//! * the newest waiter goes first, because it is warm, or one of the four newest that ran
//!   on the core that it can have; but the oldest every 500 µs, and once it runs nobody
//!   overtakes it: with n waiters each is chosen after n turns at most;
//! * whoever has been at a lock for 500 µs steps back behind the others, unless somebody
//!   may depend on it;
//! * nobody spins unless a core is free, and nobody is woken under a lock;
//! * no allocation: waiters are linked through their own stacks.
//!
//! The modules of [`raw`] tell the details.
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
// Not inside: the models compile that file against other atomics.
#[cfg(test)]
#[path = "waiters/tests.rs"]
mod waiters_tests;

pub use commit_queue::{CommitQueue, Group, Member, Unanswered};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use patience::Patience;
pub use rw_lock::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks without values, for those who bring their own memory and know what they do.
pub mod raw {
    pub use crate::condition::{Condition, Ticket, Wake};
    pub use crate::counts::{Counts, count_from_now, counts};
    pub use crate::futex::Deadline;
    pub use crate::lock::{Lock, TURN_MICROS};
    pub use crate::process::forked;
}
