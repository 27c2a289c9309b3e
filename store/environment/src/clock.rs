//! The two clocks of a process.
//!
//! They must never be mixed: `now` only moves forward and means nothing outside this process
//! (timeouts, leases, elections); `unix_time` is the wall clock, may jump, and is only for
//! display.

use std::fmt::Debug;
use std::ops::Add;
use std::time::Duration;

/// A moment on the monotonic clock: the time since an arbitrary origin that
/// all clocks of one process share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// Returns the moment that lies `elapsed` after the origin.
    pub const fn from_origin(elapsed: Duration) -> Instant {
        Instant(elapsed)
    }

    /// Time since the origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Time since `earlier`; zero when `earlier` is the later of the two.
    pub fn saturating_since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates: a deadline that is too far to express becomes the latest moment.
    fn add(self, length: Duration) -> Instant {
        Instant(self.0.saturating_add(length))
    }
}

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time of the monotonic clock.
    fn now(&self) -> Instant;
    /// Returns the time since 1970 by the wall clock; zero if the wall clock shows an earlier time.
    fn unix_time(&self) -> Duration;
    /// Blocks the calling thread for `length`.
    fn sleep(&self, length: Duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_a_later_moment_is_zero() {
        let early = Instant::from_origin(Duration::from_secs(1));
        let late = early + Duration::from_secs(2);
        assert_eq!(late.saturating_since(early), Duration::from_secs(2));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
        assert!(late > early);
    }

    #[test]
    fn a_deadline_that_overflows_saturates() {
        let never = Instant::from_origin(Duration::MAX) + Duration::from_secs(1);
        assert_eq!(never.since_origin(), Duration::MAX);
    }
}
