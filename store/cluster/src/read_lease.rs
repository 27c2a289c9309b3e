//! The leader's lease on reads: until it ends, no other member can lead.
//!
//! ```text
//!   leader   sends s ─────────────────────────► s + 0.9 T   the lease ends
//!                 ╲
//!   voter          ╲─► receives ───────────────────────► + T   may vote again
//! ```
//!
//! After a leader's message a voter votes for no other member for an election timeout `T`
//! by its own clock, in every mode and after a restart too (`promise.rs`). The leader counts
//! from the moment when it *sent* a round, and only nine tenths of that time, so clock rates
//! may differ by less than a tenth. Any majority that elects another member shares a voter
//! with the majority that answered.
//!
//! A read under the lease first loads the end of the lease, then the clock, and then the
//! data. So the lease held at some moment after the request arrived: everything that was
//! acknowledged, or visible anywhere, before that moment is applied here, and data that are
//! read later show it, however long the thread pauses in between. A pause between the
//! loads of the end and the clock only makes the lease look shorter.
//!
//! Followers may apply, and show, entries that wait for the leader's own disk. During that
//! time the lease is not published: reads go through the replica, and wait for the disk.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::{Clock, Instant};

/// How a leader confirms that it still leads before a linearizable read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// It asks a majority; reads that wait share a round. Relies on no clock.
    #[default]
    ReadIndex,
    /// While its lease holds, it asks no other member. Relies on clock rates of the members
    /// that differ by less than a tenth.
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

/// The end of the lease under which this member may serve reads without asking other members.
/// Only the replica writes it; any thread may read it.
#[derive(Debug)]
pub struct ReadLease {
    clock: Arc<dyn Clock>,
    /// Nanoseconds on the monotonic clock; 0 if there is no lease.
    until_nanos: AtomicU64,
}

impl ReadLease {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> ReadLease {
        ReadLease {
            clock,
            until_nanos: AtomicU64::new(0),
        }
    }

    /// Whether a read of the data after this call shows everything that was acknowledged before
    /// the call.
    pub fn holds(&self) -> bool {
        let until_nanos = self.until_nanos.load(Ordering::Acquire);
        if until_nanos == 0 {
            return false;
        }
        // The clock must be read after the end. In the other order, the lease could be
        // withdrawn and a newer one granted in between, which does not cover that time.
        self.clock.now() < Instant::from_origin(Duration::from_nanos(until_nanos))
    }

    /// Sets the end of the lease.
    pub(crate) fn extend(&self, until: Instant) {
        let until_nanos = nanos(until.since_origin());
        self.until_nanos.store(until_nanos, Ordering::Release);
    }

    /// Ends the lease at once.
    pub(crate) fn withdraw(&self) {
        self.until_nanos.store(0, Ordering::Release);
    }
}

/// Whole nanoseconds, at most `u64::MAX`, which is more than five centuries.
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
        assert!(!lease.holds(), "no lease was granted");
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
    fn a_mode_is_parsed_as_it_is_displayed() {
        for mode in [ReadMode::ReadIndex, ReadMode::Lease] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("safe".parse::<ReadMode>(), Err(()));
    }
}
