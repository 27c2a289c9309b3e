//! Clients and a server in virtual time: stalls as an open loop and a closed loop record
//! them.
//!
//! ```text
//!   closed loop   a client sends the next request after the answer: a stall delays one
//!                 request and prevents all others
//!   open loop     requests are due at fixed times; the latency of each counts from then
//!                 on, whether or not a client was free to send it
//! ```

use std::sync::Arc;

use crate::load::{Arrivals, OperationResult, Plan, Recorded, Recorder};
use crate::record::{Kind, LoadResult};
use crate::workload::{Process, parse};

/// A server that answers one request at a time and stalls at regular intervals.
#[derive(Clone, Copy, Debug)]
pub struct StallingServer {
    /// Time of one answer, in milliseconds.
    pub service_ms: f64,
    /// Time between the beginnings of two stalls, in milliseconds.
    pub stall_every_ms: f64,
    /// Length of a stall, in milliseconds.
    pub stall_ms: f64,
}

impl StallingServer {
    /// The time at which a request that can begin at `ready_ms` is answered.
    fn answered(&self, ready_ms: f64) -> f64 {
        let into = ready_ms % self.stall_every_ms;
        // The stall is at the end of each period, so that runs do not begin with one.
        let awake = self.stall_every_ms - self.stall_ms;
        let begun = if into >= awake {
            ready_ms + self.stall_every_ms - into
        } else {
            ready_ms
        };
        begun + self.service_ms
    }

    /// The lab's result for requests that are due every `interval_ms`.
    pub fn open_loop(&self, interval_ms: f64, requests: u64) -> LoadResult {
        let seconds = interval_ms / 1e3 * requests as f64;
        let arrivals = Arrivals::new(Process::Uniform, 1e3 / interval_ms, seconds, 1);
        let mut clients = Clients::new(Some(arrivals.expect("these need no draws")), seconds);
        for request in 0..requests {
            let due_ms = request as f64 * interval_ms;
            let begun_ms = due_ms.max(clients.free_ms);
            clients.note(due_ms, begun_ms, self.answered(begun_ms));
        }
        clients.result()
    }

    /// The lab's result for one client that sends the next request after each answer.
    pub fn closed_loop(&self, seconds: f64) -> LoadResult {
        let mut clients = Clients::new(None, seconds);
        while clients.free_ms < seconds * 1e3 {
            let begun_ms = clients.free_ms;
            clients.note(begun_ms, begun_ms, self.answered(begun_ms));
        }
        clients.result()
    }

    /// Theoretical quantile at `share` of the open-loop response times. A stall delays the
    /// requests that are due during it; their waits decrease linearly from its whole length
    /// while the backlog is worked off.
    pub fn open_loop_theory_ms(&self, interval_ms: f64, share: f64) -> f64 {
        let load = self.service_ms / interval_ms;
        // Requests also wait while the backlog shrinks after the stall.
        let caught_ms = self.stall_ms / (1.0 - load);
        let caught = caught_ms / self.stall_every_ms;
        let slowest = (1.0 - share) / caught;
        self.stall_ms * (1.0 - slowest) + self.service_ms
    }
}

/// The lab's own recorder, fed with simulated times.
struct Clients {
    plan: Arc<Plan>,
    recorder: Recorder,
    free_ms: f64,
}

impl Clients {
    fn new(arrivals: Option<Arrivals>, seconds: f64) -> Clients {
        let workload = parse("selftest", "name = \"stalls\"").expect("a name is enough");
        let plan = Arc::new(Plan::new(&workload, 1, arrivals));
        plan.measure(0, (seconds * 1e9) as u64);
        Clients {
            recorder: Recorder::new(&plan, Arc::default()),
            plan,
            free_ms: 0.0,
        }
    }

    fn note(&mut self, due_ms: f64, begun_ms: f64, answered_ms: f64) {
        let [due, begun, answered] = [due_ms, begun_ms, answered_ms].map(|ms| (ms * 1e6) as u64);
        self.plan.take_arrival();
        self.recorder
            .note(Kind::Put, due, begun, answered, &OperationResult::default());
        self.free_ms = answered_ms;
    }

    fn result(self) -> LoadResult {
        Recorded::merge(&self.plan, vec![self.recorder.into_recorded()])
    }
}

/// The response time that 999 of 1000 requests stay below, in milliseconds.
pub fn p999(load: &LoadResult) -> f64 {
    load.response().percentile(99.9) as f64 / 1e6
}
