//! The same for systems without a futex: sleepers share a few rooms, found by
//! the word's address, and check their word when their room is called.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const ROOMS: usize = 64;

struct Room {
    door: Mutex<()>,
    bell: Condvar,
}

static HOTEL: [Room; ROOMS] = [const {
    Room {
        door: Mutex::new(()),
        bell: Condvar::new(),
    }
}; ROOMS];

/// A moment after which nobody waits any more.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// None lies beyond what the clock can say.
    at: Option<Instant>,
}

impl Deadline {
    /// `patience` from now.
    pub fn after(patience: Duration) -> Deadline {
        Deadline {
            at: now().checked_add(patience),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this crate stands alone: it has no other clock"
)]
fn now() -> Instant {
    Instant::now()
}

fn enter(word: *const AtomicU32) -> (MutexGuard<'static, ()>, &'static Condvar) {
    // Words are 4 bytes apart; neighbours should not share a room.
    let room = &HOTEL[(word.addr() / 64) % ROOMS];
    let guard = room.door.lock().unwrap_or_else(PoisonError::into_inner);
    (guard, &room.bell)
}

/// Sleeps while `word` is `expected`; false once the deadline has passed.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> bool {
    let (guard, bell) = enter(word);
    if word.load(Ordering::Relaxed) != expected {
        return true;
    }
    match deadline.and_then(|deadline| deadline.at) {
        None => {
            drop(bell.wait(guard));
            true
        }
        Some(at) => {
            let left = at.saturating_duration_since(now());
            !left.is_zero() && {
                drop(bell.wait_timeout(guard, left));
                true
            }
        }
    }
}

/// Wakes the sleepers of the word at this address, and whoever shares their room.
pub(crate) fn wake_one(word: *const AtomicU32) {
    let (_guard, bell) = enter(word);
    bell.notify_all();
}
