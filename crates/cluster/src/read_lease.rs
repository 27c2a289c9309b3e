//! The leader's lease on reads: until when nobody else can lead.
//!
//! ```text
//!   leader   sends s ─────────────────────────► s + 0.9 T   the lease ends
//!                 ╲
//!   voter          ╲─► hears ──────────────────────────► + T   may vote again
//! ```
//!
//! A voter that has heard a leader votes for nobody else for an election timeout
//! `T` by its own clock, in every mode and after a restart too (`promise.rs`).
//! The leader counts a round from the moment it *sent* it, and only nine tenths of
//! that time, so clocks whose rates differ by less than a tenth may disagree. Any
//! majority that elects another shares a voter with the majority that answered.
//!
//! A read under the lease looks at the end first, then at the clock, and then at
//! the data. So the lease held at some moment after the request came: what was
//! acknowledged or shown anywhere before is applied here by then, and the data that
//! are looked at later show it, however long the thread stands still in between. A
//! pause between the end and the clock only makes the lease look shorter.
//!
//! Followers may apply what waits for the leader's own disk, and show it. Meanwhile
//! the lease is not published: reads go through the replica, and wait for the disk.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::{Clock, Instant};

/// How a leader makes sure of its lead before a linearizable read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// It asks a majority; reads that wait share a round. Believes no clock.
    #[default]
    ReadIndex,
    /// While its lease holds it asks nobody. Believes that members' clocks run at
    /// rates that differ by less than a tenth.
    Lease,
}

impl fmt::Display for ReadMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ReadMode::ReadIndex => "read-index",
            ReadMode::Lease => "lease",
        })
    }
}

impl FromStr for ReadMode {
    type Err = ();

    fn from_str(text: &str) -> Result<ReadMode, ()> {
        [ReadMode::ReadIndex, ReadMode::Lease]
            .into_iter()
            .find(|mode| mode.to_string() == text)
            .ok_or(())
    }
}

/// Until when this member may read without asking anyone. The replica alone
/// writes it, anyone looks.
#[derive(Debug)]
pub struct ReadLease {
    clock: Arc<dyn Clock>,
    /// Nanoseconds on the monotonic clock; 0: there is no lease.
    until_nanos: AtomicU64,
}

impl ReadLease {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> ReadLease {
        ReadLease {
            clock,
            until_nanos: AtomicU64::new(0),
        }
    }

    /// Whether a read of data that are looked at after this call shows all that
    /// was acknowledged before it.
    pub fn holds(&self) -> bool {
        let until_nanos = self.until_nanos.load(Ordering::Acquire);
        if until_nanos == 0 {
            return false;
        }
        // Not before the end is known: between the two it may be withdrawn and a
        // newer one granted, which says nothing about the time in between.
        self.clock.now() < Instant::from_origin(Duration::from_nanos(until_nanos))
    }

    /// The lease holds until then.
    pub(crate) fn extend(&self, until: Instant) {
        let until_nanos = nanos(until.since_origin());
        self.until_nanos.store(until_nanos, Ordering::Release);
    }

    /// There is no lease, as of now.
    pub(crate) fn withdraw(&self) {
        self.until_nanos.store(0, Ordering::Release);
    }
}

/// Whole nanoseconds: a clock that has run for five centuries stands still.
pub(crate) fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use environment::simulated::SimulatedClock;

    #[test]
    fn a_lease_ends_by_the_clock_or_when_it_is_withdrawn() {
        let clock = SimulatedClock::stepped();
        let lease = ReadLease::new(Arc::new(clock.clone()));
        assert!(!lease.holds(), "nobody granted one");
        lease.extend(clock.now() + Duration::from_millis(900));
        clock.advance(Duration::from_millis(899));
        assert!(lease.holds());
        clock.advance(Duration::from_millis(1));
        assert!(!lease.holds());
        lease.extend(clock.now() + Duration::from_millis(900));
        assert!(lease.holds());
        lease.withdraw();
        assert!(!lease.holds());
    }

    #[test]
    fn a_mode_is_read_as_it_is_written() {
        for mode in [ReadMode::ReadIndex, ReadMode::Lease] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("safe".parse::<ReadMode>(), Err(()));
    }
}
