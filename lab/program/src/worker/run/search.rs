//! Search for the highest rate that meets an objective.
//!
//! ```text
//!   closed loop ─► the target's greatest rate ─► open loops at rates between a
//!   twentieth of it and all of it, by bisection of the logarithm
//! ```
//!
//! Each step is a load of its own on the same target, so a search takes as many measured
//! parts as it has steps. The result is that of the last step that met the objective, or of
//! the last step if none did.

use super::{Failure, Job, Measured, Opened, Round, Run, SpaceWatch, arrivals, once};
use crate::record::{LoadResult, SearchStep};
use crate::workload::{Objective, Process};

const STEPS: u32 = 7;
/// Lowest rate of the search, as a share of the closed loop's rate.
const LOWEST_SHARE: f64 = 0.05;

/// Searches; the costs in `run` are those of the step that is the result.
pub fn search(
    job: &Job,
    (opened, space): (&mut Opened, &mut SpaceWatch),
    run: &mut Run,
    (objective, process): (Objective, Process),
    first: Round,
) -> Result<Measured, Failure> {
    let closed = once(job, (&mut *opened, &mut *space), run, None, first)?;
    let mut acknowledged = closed.1;
    let most = closed.0.operations() as f64 / closed.0.seconds;
    let mut bounds = Bounds {
        low: most * LOWEST_SHARE,
        high: most,
    };
    let mut steps = Vec::new();
    let mut best: Option<(LoadResult, _, Run)> = None;
    let mut worst = None;
    for round in 1..=STEPS {
        let rate = bounds.next(round);
        let times = arrivals(&job.workload, process, rate, job.seed ^ u64::from(round))?;
        let mut of_step = Run::of(job);
        let of_round = Round {
            number: round,
            ..first
        };
        let open_loop = Some((times, rate));
        let (load, writes, steadiness) = once(
            job,
            (&mut *opened, &mut *space),
            &mut of_step,
            open_loop,
            of_round,
        )?;
        acknowledged.extend(writes);
        let step = judge(&load, rate, objective);
        steps.push(step);
        bounds.learn(rate, step.held);
        match step.held {
            true => best = Some((load, steadiness, of_step)),
            false => worst = Some((load, steadiness, of_step)),
        }
        if bounds.are_close() {
            break;
        }
    }
    let (mut load, steadiness, accounts) = best.or(worst).ok_or("a search without a step")?;
    load.search = steps;
    run.client = accounts.client;
    run.server = accounts.server;
    run.device = accounts.device;
    run.device_settled = accounts.device_settled;
    run.user_bytes_written = accounts.user_bytes_written;
    run.disturbance = accounts.disturbance;
    Ok((load, acknowledged, steadiness))
}

/// The highest rate that met the objective, and the lowest that did not.
struct Bounds {
    low: f64,
    high: f64,
}

impl Bounds {
    /// The rate of the next step. The first step tries the lowest rate.
    fn next(&self, round: u32) -> f64 {
        match round {
            1 => self.low,
            _ => (self.low * self.high).sqrt(),
        }
    }

    fn learn(&mut self, rate: f64, held: bool) {
        match held {
            true => self.low = self.low.max(rate),
            false => self.high = self.high.min(rate),
        }
    }

    fn are_close(&self) -> bool {
        self.high <= self.low * 1.05
    }
}

fn judge(load: &LoadResult, rate: f64, objective: Objective) -> SearchStep {
    let latency_us = load.response().percentile(objective.percentile) as f64 / 1e3;
    let latency_us = (!load.saturated).then_some(latency_us);
    let bound_us = objective.bound.as_seconds() * 1e6;
    SearchStep {
        rate,
        answered: load.operations() as f64 / load.seconds.max(f64::MIN_POSITIVE),
        latency_us,
        held: load.failed() == 0 && latency_us.is_some_and(|latency| latency < bound_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The highest rate found when everything up to `limit` holds.
    fn found(limit: f64) -> f64 {
        let mut bounds = Bounds {
            low: 50.0,
            high: 1000.0,
        };
        let mut best = 0.0;
        for round in 1..=STEPS {
            let rate = bounds.next(round);
            let held = rate <= limit;
            best = if held { rate } else { best };
            bounds.learn(rate, held);
            if bounds.are_close() {
                break;
            }
        }
        best
    }

    #[test]
    fn a_search_ends_near_the_limit_from_below() {
        for limit in [60.0, 200.0, 777.0, 999.0] {
            let found = found(limit);
            assert!(found <= limit && found > limit * 0.85, "{limit}: {found}");
        }
    }

    #[test]
    fn a_search_without_success_ends() {
        assert_eq!(found(1.0), 0.0);
    }
}
