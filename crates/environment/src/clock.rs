//! Time, as the rest of the house sees it.
//!
//! Two clocks that must never be mixed: `now` only ever moves forward and
//! means nothing outside this process (timeouts, leases, elections);
//! `unix_time` is what the wall says, may jump, and is only for people.

use std::fmt::Debug;
use std::ops::Add;
use std::time::Duration;

/// A moment on the monotonic clock: the time since an arbitrary origin that
/// all clocks of one process share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The moment that lies `elapsed` after the origin.
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

    /// Saturates: a deadline too far to express is "never".
    fn add(self, length: Duration) -> Instant {
        Instant(self.0.saturating_add(length))
    }
}

/// Where time comes from.
pub trait Clock: Send + Sync + Debug {
    /// The monotonic clock.
    fn now(&self) -> Instant;
    /// Time since 1970 by the wall clock; zero when the wall says earlier.
    fn unix_time(&self) -> Duration;
    /// Blocks the calling thread.
    fn sleep(&self, length: Duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_moment_is_zero_away_never_negative() {
        let early = Instant::from_origin(Duration::from_secs(1));
        let late = early + Duration::from_secs(2);
        assert_eq!(late.saturating_since(early), Duration::from_secs(2));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
        assert!(late > early);
    }

    #[test]
    fn a_deadline_past_the_end_of_time_saturates() {
        let never = Instant::from_origin(Duration::MAX) + Duration::from_secs(1);
        assert_eq!(never.since_origin(), Duration::MAX);
    }
}
