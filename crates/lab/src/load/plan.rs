//! What all clients of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::Arrivals;
use crate::workload::{Keys, Values, Workload};

/// Later than everything.
pub const NEVER: u64 = u64::MAX;

/// What to do, and when the measured part is. Times are nanoseconds since the
/// origin.
#[derive(Debug)]
pub struct Plan {
    /// What is asked.
    pub workload: Workload,
    /// Clients of the run.
    pub clients: u32,
    /// What draws come from.
    pub seed: u64,
    /// Makes keys.
    pub keys: Keys,
    /// Makes values.
    pub values: Values,
    /// When operations are due; none in a closed loop.
    pub arrivals: Option<Arrivals>,
    /// Length of an interval of the series.
    pub interval_ns: u64,
    /// Which of several plans of one run, from 0: their writes differ.
    pub round: u32,
    origin: Instant,
    next_arrival: AtomicU64,
    measure_from: AtomicU64,
    measure_until: AtomicU64,
    is_over: AtomicBool,
}

impl Plan {
    /// A run that begins now and is measured when the coordinator says so.
    pub fn new(workload: &Workload, seed: u64, arrivals: Option<Arrivals>) -> Plan {
        let clients = workload.clients.clients[0];
        Plan {
            clients,
            round: 0,
            seed,
            keys: Keys::new(&workload.load.key),
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

    /// The same load as another plan of the same run.
    pub fn in_round(mut self, round: u32) -> Plan {
        assert!(round < 128, "stamps have room for 128 rounds");
        self.round = round;
        self
    }

    /// Where the plan's times count from.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Now, in nanoseconds since the origin.
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// The moment that is so many nanoseconds after the origin.
    pub fn instant(&self, at_ns: u64) -> Instant {
        self.origin + std::time::Duration::from_nanos(at_ns)
    }

    /// Number of the next operation of an open loop.
    pub fn take_arrival(&self) -> u64 {
        self.next_arrival.fetch_add(1, Ordering::Relaxed)
    }

    /// Operations of an open loop that have been taken.
    pub fn arrivals_taken(&self) -> u64 {
        self.next_arrival.load(Ordering::Relaxed)
    }

    /// Fixes the measured part.
    pub fn measure(&self, from_ns: u64, until_ns: u64) {
        assert!(from_ns < until_ns, "a measured part has a length");
        self.measure_until.store(until_ns, Ordering::Relaxed);
        self.measure_from.store(from_ns, Ordering::Release);
    }

    /// Beginning and end of the measured part, once they are known.
    pub fn measured(&self) -> (u64, u64) {
        let from = self.measure_from.load(Ordering::Acquire);
        (from, self.measure_until.load(Ordering::Relaxed))
    }

    /// Clients begin nothing more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether clients shall begin nothing more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
