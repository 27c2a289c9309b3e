//! A clock that a test moves.
//!
//! There are two kinds. [`SimulatedClock::stepped`]: a sleeper sleeps until the test
//! advances the clock past its deadline. [`SimulatedClock::jumping`]: a sleeper
//! advances the clock itself, so that no thread ever waits.

use crate::Mutex;
use std::sync::{Arc, Condvar, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Instant};

/// A clock under a test's control; clones are the same clock.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<ClockState>,
    /// Signalled whenever the time moves or a sleeper comes.
    changed: Condvar,
}

#[derive(Debug)]
struct ClockState {
    /// Time since the origin. Only grows.
    elapsed: Duration,
    /// The wall clock. Moves with `elapsed`; a test may set it either way.
    wall: Duration,
    /// Threads inside `sleep`.
    sleepers: usize,
    /// A sleep advances the clock instead of waiting.
    jumping: bool,
}

/// The wall clock at the origin: 2026-01-01, so that a time that was
/// wrongly taken from it is easy to see.
const WALL_AT_ORIGIN: Duration = Duration::from_secs(1_767_225_600);

impl SimulatedClock {
    /// Sleepers wait for [`SimulatedClock::advance`].
    pub fn stepped() -> SimulatedClock {
        SimulatedClock::new(false)
    }

    /// Sleepers advance the clock themselves.
    pub fn jumping() -> SimulatedClock {
        SimulatedClock::new(true)
    }

    fn new(jumping: bool) -> SimulatedClock {
        let state = ClockState {
            elapsed: Duration::ZERO,
            wall: WALL_AT_ORIGIN,
            sleepers: 0,
            jumping,
        };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        SimulatedClock {
            shared: Arc::new(shared),
        }
    }

    /// Moves the clock and wakes the sleepers past their deadlines.
    pub fn advance(&self, length: Duration) {
        self.shared.state.lock().advance(length);
        self.shared.changed.notify_all();
    }

    /// Sets the wall clock, forwards or backwards; the monotonic clock stays.
    pub fn set_unix_time(&self, wall: Duration) {
        self.shared.state.lock().wall = wall;
    }

    /// Blocks until `count` threads sleep, so that a test advances the clock
    /// only when they are there to see it.
    pub fn wait_for_sleepers(&self, count: usize) {
        let state = self.shared.state.lock();
        let waited = self
            .shared
            .changed
            .wait_while(state, |state| state.sleepers < count);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl ClockState {
    fn advance(&mut self, length: Duration) {
        self.elapsed += length;
        self.wall += length;
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Instant {
        Instant::from_origin(self.shared.state.lock().elapsed)
    }

    fn unix_time(&self) -> Duration {
        self.shared.state.lock().wall
    }

    fn sleep(&self, length: Duration) {
        let mut state = self.shared.state.lock();
        if state.jumping {
            state.advance(length);
            return self.shared.changed.notify_all();
        }
        let deadline = state.elapsed.saturating_add(length);
        state.sleepers += 1;
        self.shared.changed.notify_all();
        let waited = self
            .shared
            .changed
            .wait_while(state, |state| state.elapsed < deadline);
        waited.unwrap_or_else(PoisonError::into_inner).sleepers -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_until_it_is_advanced() {
        let clock = SimulatedClock::stepped();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now().saturating_since(before), Duration::from_secs(3));
    }

    #[test]
    fn a_sleeper_wakes_only_past_its_deadline() {
        let clock = SimulatedClock::stepped();
        let sleeper = clock.clone();
        let thread = crate::threads::spawn("sleeper", move || {
            sleeper.sleep(Duration::from_secs(10));
            sleeper.now()
        });
        clock.wait_for_sleepers(1);
        clock.advance(Duration::from_secs(9));
        assert!(!thread.as_ref().unwrap().is_finished());
        clock.advance(Duration::from_secs(1));
        let woke = thread.unwrap().join().unwrap();
        assert_eq!(woke.since_origin(), Duration::from_secs(10));
    }

    #[test]
    fn a_jumping_clock_never_waits() {
        let clock = SimulatedClock::jumping();
        clock.sleep(Duration::from_secs(3_600));
        assert_eq!(clock.now().since_origin(), Duration::from_secs(3_600));
    }

    #[test]
    fn the_wall_may_jump_back_while_the_monotonic_clock_goes_on() {
        let clock = SimulatedClock::stepped();
        clock.advance(Duration::from_secs(100));
        let before = clock.now();
        clock.set_unix_time(Duration::from_secs(50));
        assert_eq!(clock.unix_time(), Duration::from_secs(50));
        assert_eq!(clock.now(), before);
    }
}
