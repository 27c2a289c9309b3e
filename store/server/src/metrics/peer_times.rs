//! Times that the node reports of each other member: round trips and snapshots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::Transfer;

use super::Counter;
use super::histogram::{Histogram, ROUND_TRIP_SECONDS, SAVE_SECONDS};
use crate::lock;

/// Times that the node has reported of each other member.
#[derive(Debug, Default)]
pub(crate) struct PeerMetrics(Mutex<BTreeMap<u64, Arc<PeerTimes>>>);

/// Times of one other member.
#[derive(Debug)]
pub(super) struct PeerTimes {
    pub(super) round_trips: Histogram,
    sent: Snapshots,
    received: Snapshots,
}

/// The snapshots of one direction.
#[derive(Debug)]
pub(super) struct Snapshots {
    pub(super) under_way: Counter,
    pub(super) succeeded: Counter,
    pub(super) failed: Counter,
    pub(super) times: Histogram,
}

impl PeerMetrics {
    pub(super) fn of(&self, member: u64) -> Arc<PeerTimes> {
        let fresh = || {
            Arc::new(PeerTimes {
                round_trips: Histogram::new(ROUND_TRIP_SECONDS),
                sent: Snapshots::new(),
                received: Snapshots::new(),
            })
        };
        Arc::clone(lock(&self.0).entry(member).or_insert_with(fresh))
    }

    /// The number of round trips to a member, and their sum in seconds.
    pub(super) fn round_trips(&self, member: u64) -> (u64, f64) {
        let reading = self.of(member).round_trips.read();
        (reading.count, reading.sum)
    }

    pub(super) fn round_trip(&self, member: u64, took: Duration) {
        self.of(member).round_trips.observe(took);
    }

    pub(super) fn snapshot_began(&self, transfer: Transfer, member: u64) {
        self.of(member).snapshots(transfer).under_way.add(1);
    }

    pub(super) fn snapshot_ended(
        &self,
        transfer: Transfer,
        member: u64,
        success: bool,
        took: Duration,
    ) {
        let times = self.of(member);
        let snapshots = times.snapshots(transfer);
        snapshots.under_way.sub(1);
        match success {
            true => {
                snapshots.succeeded.add(1);
                snapshots.times.observe(took);
            }
            false => snapshots.failed.add(1),
        }
    }
}

impl PeerTimes {
    pub(super) fn snapshots(&self, transfer: Transfer) -> &Snapshots {
        match transfer {
            Transfer::Sent => &self.sent,
            Transfer::Received => &self.received,
        }
    }
}

impl Snapshots {
    fn new() -> Snapshots {
        Snapshots {
            under_way: Counter::default(),
            succeeded: Counter::default(),
            failed: Counter::default(),
            times: Histogram::new(SAVE_SECONDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_under_way_until_it_ends_one_way_or_the_other() {
        let metrics = PeerMetrics::default();
        let counts = |transfer| {
            let times = metrics.of(7);
            let it = times.snapshots(transfer);
            let observed = it.times.read().count;
            (
                it.under_way.get(),
                it.succeeded.get(),
                it.failed.get(),
                observed,
            )
        };
        for transfer in [Transfer::Sent, Transfer::Received] {
            metrics.snapshot_began(transfer, 7);
            assert_eq!(counts(transfer), (1, 0, 0, 0));
            metrics.snapshot_ended(transfer, 7, true, Duration::from_secs(1));
            assert_eq!(counts(transfer), (0, 1, 0, 1));
            metrics.snapshot_began(transfer, 7);
            metrics.snapshot_ended(transfer, 7, false, Duration::from_secs(1));
            assert_eq!(counts(transfer), (0, 1, 1, 1));
        }
    }
}
