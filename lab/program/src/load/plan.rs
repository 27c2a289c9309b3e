//! The plan of a load, which all clients of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Arrivals;
use crate::workload::{KeySpec, Values, Workload};

/// A time later than all others.
pub const NEVER: u64 = u64::MAX;

/// The operations to perform, and the bounds of the measured part. Times are nanoseconds
/// since the origin.
#[derive(Debug)]
pub struct Plan {
    pub workload: Workload,
    /// Number of clients.
    pub clients: u32,
    /// Seed of all draws.
    pub seed: u64,
    pub keys: KeySpec,
    pub values: Values,
    /// Due times of the operations; `None` in a closed loop.
    pub arrivals: Option<Arrivals>,
    /// Length of an interval of the series.
    pub interval_ns: u64,
    /// Number of this plan among several of one run (a search has several), from 0. Plans of
    /// different rounds write different values.
    pub round: u32,
    origin: Instant,
    next_arrival: AtomicU64,
    measure_from: AtomicU64,
    measure_until: AtomicU64,
    is_over: AtomicBool,
}

impl Plan {
    /// A plan with its origin now. Its measured part is open until [`measure`](Plan::measure).
    pub fn new(workload: &Workload, seed: u64, arrivals: Option<Arrivals>) -> Plan {
        let clients = workload.clients.clients[0];
        Plan {
            clients,
            round: 0,
            seed,
            keys: workload.load.key.clone(),
            values: Values::new(&workload.load.value, seed),
            arrivals,
            interval_ns: (workload.time.interval.as_seconds() * 1e9) as u64,
            workload: workload.clone(),
            origin: Instant::now(),
            next_arrival: AtomicU64::new(0),
            measure_from: AtomicU64::new(NEVER),
            measure_until: AtomicU64::new(NEVER),
            is_over: AtomicBool::new(false),
        }
    }

    /// The same load in another round of the run.
    pub fn in_round(mut self, round: u32) -> Plan {
        assert!(round < 128, "stamps have room for 128 rounds");
        self.round = round;
        self
    }

    /// The moment from which the plan's times count.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// The present time, in nanoseconds since the origin.
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// The time that is left until `at_ns` nanoseconds after the origin.
    pub fn left_until(&self, at_ns: u64) -> Duration {
        Duration::from_nanos(at_ns).saturating_sub(self.origin.elapsed())
    }

    /// Takes the next operation of an open loop and returns its number.
    pub fn take_arrival(&self) -> u64 {
        self.next_arrival.fetch_add(1, Ordering::Relaxed)
    }

    /// Number of operations of an open loop that clients have taken.
    pub fn arrivals_taken(&self) -> u64 {
        self.next_arrival.load(Ordering::Relaxed)
    }

    /// Fixes beginning and end of the measured part.
    pub fn measure(&self, from_ns: u64, until_ns: u64) {
        assert!(from_ns < until_ns, "a measured part has a length");
        self.measure_until.store(until_ns, Ordering::Relaxed);
        self.measure_from.store(from_ns, Ordering::Release);
    }

    /// Beginning and end of the measured part; both are [`NEVER`] until they are fixed.
    pub fn measured(&self) -> (u64, u64) {
        let from = self.measure_from.load(Ordering::Acquire);
        (from, self.measure_until.load(Ordering::Relaxed))
    }

    /// Ends the run: clients begin no further operation.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether the run has been ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
