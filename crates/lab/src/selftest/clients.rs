//! Clients and a server in virtual time: what stalls look like to those who wait
//! for their turn, and to those who do not.
//!
//! ```text
//!   closed loop   a client asks again when it was answered: during a stall it is
//!                 silent, and one long answer stands for all that it did not ask
//!   open loop     requests are due at times that nobody can move; each waits
//!                 from then on, whether or not anyone was free to send it
//! ```

use crate::statistics::summary::quantile;

/// A server that answers one request after the other, and sometimes stands still.
#[derive(Clone, Copy, Debug)]
pub struct StallingServer {
    /// How long one answer takes, in milliseconds.
    pub service_ms: f64,
    /// A stall begins every so often.
    pub stall_every_ms: f64,
    /// How long it lasts.
    pub stall_ms: f64,
}

impl StallingServer {
    /// When a request that can be begun at `ready_ms` is answered.
    fn answered(&self, ready_ms: f64) -> f64 {
        let into = ready_ms % self.stall_every_ms;
        // The stall is at the end of each period, so that runs begin awake.
        let awake = self.stall_every_ms - self.stall_ms;
        let begun = if into >= awake {
            ready_ms + self.stall_every_ms - into
        } else {
            ready_ms
        };
        begun + self.service_ms
    }

    /// Response times of requests due every `interval_ms`, from when they were
    /// due.
    pub fn open_loop(&self, interval_ms: f64, requests: usize) -> Vec<f64> {
        let mut free_ms = 0.0_f64;
        (0..requests)
            .map(|request| {
                let due_ms = request as f64 * interval_ms;
                free_ms = self.answered(due_ms.max(free_ms));
                free_ms - due_ms
            })
            .collect()
    }

    /// Response times of one client that asks again when it was answered.
    pub fn closed_loop(&self, requests: usize) -> Vec<f64> {
        let mut now_ms = 0.0;
        (0..requests)
            .map(|_| {
                let answered_ms = self.answered(now_ms);
                let response_ms = answered_ms - now_ms;
                now_ms = answered_ms;
                response_ms
            })
            .collect()
    }

    /// What the share of the slowest open-loop responses exceeds, by theory: a
    /// stall catches those due during it, and their waits fall evenly from its
    /// whole length as the backlog is worked off.
    pub fn open_loop_theory_ms(&self, interval_ms: f64, share: f64) -> f64 {
        let load = self.service_ms / interval_ms;
        // While the backlog shrinks, requests go on waiting.
        let caught_ms = self.stall_ms / (1.0 - load);
        let caught = caught_ms / self.stall_every_ms;
        let slowest = (1.0 - share) / caught;
        self.stall_ms * (1.0 - slowest) + self.service_ms
    }
}

/// The response time that 999 of 1000 requests stay below.
pub fn p999(responses: &[f64]) -> f64 {
    quantile(responses, 0.999).expect("a simulation answers requests")
}
