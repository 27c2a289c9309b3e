//! Round trips to the other members, measured with probes.
//!
//! ```text
//!   network thread ── probe 7 ──► network thread of the other member
//!                  ◄─ echo 7 ───
//! ```
//!
//! A probe travels like a heartbeat, and each end is handled on the network thread, so that the
//! time is that of the network and not of the replica. A lost probe is followed by the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::{Clock, Instant};

use crate::lock::lock;
use crate::{Observer, PeerMessage};

/// etcd's pause between two probes of a member.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_secs(4);

/// The probes that wait for their echo.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    probes: Mutex<Probes>,
}

#[derive(Debug, Default)]
struct Probes {
    /// Number of the last probe.
    last: u64,
    /// The last probe to each member, unless its echo has come.
    waiting: HashMap<u64, (u64, Instant)>,
}

impl RoundTrips {
    pub fn new(clock: Arc<dyn Clock>, observer: Arc<dyn Observer>) -> RoundTrips {
        RoundTrips {
            clock,
            observer,
            probes: Mutex::default(),
        }
    }

    /// Returns a probe for each of these members, and forgets the earlier ones.
    pub fn probes(&self, members: &[u64]) -> Vec<(u64, PeerMessage)> {
        let now = self.clock.now();
        let mut probes = lock(&self.probes);
        probes.waiting.clear();
        let mut made = Vec::new();
        for member in members {
            probes.last += 1;
            let number = probes.last;
            probes.waiting.insert(*member, (number, now));
            made.push((*member, PeerMessage::Probe { number }));
        }
        made
    }

    /// Handles an echo.
    pub fn answered(&self, from: u64, number: u64) {
        let mut probes = lock(&self.probes);
        let Some((probe, sent_at)) = probes.waiting.get(&from).copied() else {
            return;
        };
        if probe == number {
            probes.waiting.remove(&from);
            drop(probes);
            let took = self.clock.now().saturating_since(sent_at);
            self.observer.round_trip(from, took);
        }
    }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;
    use crate::observer::testing::Seen;

    #[test]
    fn the_echo_of_the_last_probe_counts_once() {
        let (clock, seen) = (SimulatedClock::stepped(), Arc::new(Seen::default()));
        let trips = RoundTrips::new(Arc::new(clock.clone()), Arc::clone(&seen) as _);
        let number = |(_, probe): &(u64, PeerMessage)| match probe {
            PeerMessage::Probe { number } => *number,
            other => panic!("{other:?}"),
        };
        let first = trips.probes(&[2, 3]);
        let second = trips.probes(&[2, 3]);
        clock.advance(Duration::from_millis(3));
        trips.answered(2, number(&first[0]));
        trips.answered(2, number(&second[1]));
        trips.answered(9, number(&second[0]));
        assert!(seen.take().is_empty());
        for _ in 0..2 {
            trips.answered(2, number(&second[0]));
        }
        assert_eq!(seen.take(), ["round trip 2 3ms"]);
    }
}
