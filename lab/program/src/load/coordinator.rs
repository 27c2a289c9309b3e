//! The coordinator: watches the rate of a load, and decides when the measured part begins and
//! ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Plan;
use super::live::WriteCounts;
use super::recorder::ThreadCounters;
use crate::record::Steadiness;
use crate::statistics::steadiness;
use crate::targets::Failure;
use crate::workload::Warmup;

/// Interval between two samples of the rate.
const LOOK_SECONDS: f64 = 0.25;
/// Number of samples that must agree before the rate counts as steady.
const STEADY_LOOKS: usize = 8;
/// Greatest relative difference between the two halves of these samples.
pub const STEADY_CHANGE_MAX: f64 = 0.05;
/// A target that has answered nothing for this time is stuck, and the run fails.
const SILENCE_SECONDS_MAX: f64 = 30.0;
/// A run fails when a greater share of its operations than this has failed.
const FAILED_SHARE_MAX: f64 = 0.5;
/// Extra time in which an open loop may finish late operations, as a share of the measured
/// part ...
const DRAIN_SHARE: f64 = 0.25;
/// ... but at least this time.
const DRAIN_SECONDS_MIN: f64 = 2.0;

/// Stages of a run, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Waits for a quiet machine and starts the target.
    Open,
    /// Writes the preload.
    Load,
    /// Overwrites the data set in rounds.
    Overwrite,
    /// Has the target put its data in the order of the keys.
    Compact,
    /// Runs the load without counting.
    Warmup,
    /// Runs the load and counts.
    Measure,
    /// Reads acknowledged writes back.
    Verify,
}

impl Stage {
    /// Name on the terminal.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Open => "open",
            Stage::Load => "load",
            Stage::Overwrite => "overwrite",
            Stage::Compact => "compact",
            Stage::Warmup => "warm-up",
            Stage::Measure => "measure",
            Stage::Verify => "verify",
        }
    }
}

/// Callbacks at the edges of the measured part.
pub trait Edges {
    /// The measured part begins now.
    fn begins(&mut self);
    /// The measured part has ended.
    fn ended(&mut self);
    /// Reports progress several times a second: the share of the stage that has passed, and
    /// operations per second. An error ends the run.
    fn progress(&mut self, stage: Stage, share: f64, rate: f64) -> Result<(), Failure>;
    /// Receives the number of writes before each report of progress and at the end.
    fn wrote(&mut self, _counts: WriteCounts) {}
}

/// The coordinator's view of a run.
struct Watch<'a> {
    plan: &'a Plan,
    threads: &'a [Arc<ThreadCounters>],
    operations: u64,
    at_ns: u64,
    /// Time of the last sample that saw a new answer.
    answered_ns: u64,
}

/// Runs beside the clients through warm-up and measured part, then ends the plan. Returns
/// whether the rate was steady when the measured part began. Fails where the target is
/// stuck, most operations fail, or `edges` ends the run.
pub fn coordinate(
    plan: &Plan,
    threads: &[Arc<ThreadCounters>],
    edges: &mut dyn Edges,
) -> Result<Steadiness, Failure> {
    let mut watch = Watch {
        plan,
        threads,
        operations: 0,
        at_ns: 0,
        answered_ns: 0,
    };
    let outcome = watch.whole_run(edges);
    plan.end();
    outcome
}

impl Watch<'_> {
    fn whole_run(&mut self, edges: &mut dyn Edges) -> Result<Steadiness, Failure> {
        let steadiness = self.warm_up(edges)?;
        let measure_ns = (self.plan.workload.time.measure.as_seconds() * 1e9) as u64;
        // The measured part begins at an interval of the series, so that no interval
        // belongs to both parts.
        let from = self.plan.now().next_multiple_of(self.plan.interval_ns);
        self.plan.measure(from, from + measure_ns);
        std::thread::sleep(self.plan.left_until(from));
        edges.begins();
        self.look();
        while self.plan.now() < from + measure_ns {
            let left = (from + measure_ns).saturating_sub(self.plan.now()) as f64 / 1e9;
            std::thread::sleep(Duration::from_secs_f64(left.min(LOOK_SECONDS)));
            let rate = self.look();
            let share = (self.plan.now() - from) as f64 / measure_ns as f64;
            edges.wrote(self.write_counts());
            edges.progress(Stage::Measure, share.min(1.0), rate)?;
            self.check()?;
        }
        edges.ended();
        if self.plan.arrivals.is_some() {
            self.drain(from + measure_ns, measure_ns as f64 / 1e9, edges)?;
            edges.wrote(self.write_counts());
        }
        Ok(steadiness)
    }

    fn warm_up(&mut self, edges: &mut dyn Edges) -> Result<Steadiness, Failure> {
        let warmup = self.plan.workload.time.warmup;
        let seconds_max = warmup.max().as_seconds();
        let mut rates = Vec::new();
        let (mut steady, mut last_change) = (false, 0.0);
        while (self.plan.now() as f64 / 1e9) < seconds_max {
            let left = seconds_max - self.plan.now() as f64 / 1e9;
            std::thread::sleep(Duration::from_secs_f64(left.clamp(0.001, LOOK_SECONDS)));
            let rate = self.look();
            rates.push(rate);
            let seconds = self.plan.now() as f64 / 1e9;
            edges.wrote(self.write_counts());
            edges.progress(Stage::Warmup, (seconds / seconds_max).min(1.0), rate)?;
            self.check()?;
            let last = &rates[rates.len().saturating_sub(STEADY_LOOKS)..];
            if last.len() == STEADY_LOOKS
                && let Some(verdict) = steadiness(last, STEADY_CHANGE_MAX)
            {
                (steady, last_change) = (verdict.steady, verdict.halves);
            }
            if steady && matches!(warmup, Warmup::UntilSteady(_)) {
                break;
            }
        }
        Ok(Steadiness {
            steady,
            warmup_seconds: self.plan.now() as f64 / 1e9,
            last_change,
        })
    }

    /// Waits until the clients have begun all operations that were due in the measured part,
    /// but at most for the drain time.
    fn drain(&mut self, until: u64, seconds: f64, edges: &mut dyn Edges) -> Result<(), Failure> {
        let longest = (seconds * DRAIN_SHARE).max(DRAIN_SECONDS_MIN);
        let deadline = until + (longest * 1e9) as u64;
        let arrivals = self.plan.arrivals.as_ref().expect("an open loop drains");
        while self.plan.now() < deadline && self.plan.arrivals_taken() < arrivals.due_before(until)
        {
            std::thread::sleep(Duration::from_millis(20));
            edges.progress(Stage::Measure, 1.0, 0.0)?;
        }
        Ok(())
    }

    /// Takes a sample: operations per second since the one before.
    fn look(&mut self) -> f64 {
        let now = self.plan.now();
        let operations = self.sum(|thread| thread.operations.load(Ordering::Relaxed));
        let rate = (operations - self.operations) as f64 * 1e9 / (now - self.at_ns).max(1) as f64;
        if operations > self.operations {
            self.answered_ns = now;
        }
        (self.operations, self.at_ns) = (operations, now);
        rate
    }

    fn write_counts(&self) -> WriteCounts {
        WriteCounts {
            written: self.sum(|thread| thread.written.load(Ordering::Relaxed)),
            inserted: self.sum(|thread| thread.inserted.load(Ordering::Relaxed)),
            user_bytes: self.sum(|thread| thread.user_bytes_written.load(Ordering::Relaxed)),
        }
    }

    fn sum(&self, counter: impl Fn(&ThreadCounters) -> u64) -> u64 {
        self.threads.iter().map(|thread| counter(thread)).sum()
    }

    fn check(&self) -> Result<(), Failure> {
        let failed = self.sum(|thread| thread.failed.load(Ordering::Relaxed));
        if failed as f64 > FAILED_SHARE_MAX * self.operations as f64 {
            return Err(format!(
                "{failed} of {} operations failed: there is nothing to measure",
                self.operations
            )
            .into());
        }
        let silence = (self.at_ns - self.answered_ns) as f64 / 1e9;
        if silence > SILENCE_SECONDS_MAX {
            return Err(format!("the target has answered nothing for {silence:.0} s").into());
        }
        Ok(())
    }
}
