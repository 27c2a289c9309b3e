//! Experiments in virtual time, with the plans and verdicts of real ones.

use super::machine::{Drift, Machine};
use crate::schedule::RunPlan;
use crate::verdict::{
    ArmReport, Better, Comparison, Judgement, Measured, Metric, Unpaired, arm, compare_unpaired,
};

/// State of the directory that a run gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// A fresh directory for each run, as the lab makes it.
    Fresh,
    /// The machine keeps state of the earlier runs of each triple that a new directory does
    /// not remove (dirty pages, a device's own cache).
    Remembered,
}

/// A simulated experiment with known true effects.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub drift: Drift,
    /// Standard deviation of a single run, as a logarithm.
    pub noise: f64,
    /// Logarithm of B's true speed over A's.
    pub truth: f64,
    /// Logarithm of the speed of a run that is not the first in its directory.
    pub second_user: f64,
    pub directory: Directory,
}

impl World {
    /// Equal arms, 2 % noise, directories without memory.
    pub fn equal(drift: Drift) -> World {
        World {
            drift,
            noise: 0.02,
            truth: 0.0,
            second_user: 0.0,
            directory: Directory::Fresh,
        }
    }

    fn log_speed_of(&self, arm: usize, earlier_users: usize) -> f64 {
        let truth = if arm == arm::SECOND { self.truth } else { 0.0 };
        truth
            + if earlier_users > 0 {
                self.second_user
            } else {
                0.0
            }
    }
}

/// Operations per second of a run that nothing disturbs.
const SPEED: f64 = 10_000.0;

/// The judgement of the lab's comparison in a world.
pub fn interleaved(world: &World, triples: usize, seed: u64) -> Judgement {
    let plan = RunPlan::new(1, arm::COUNT, triples, seed);
    let mut machine = Machine::new(world.drift, world.noise, plan.runs.len(), !seed);
    let runs: Vec<Measured> = plan
        .runs
        .iter()
        .map(|run| {
            let earlier_users = match world.directory {
                Directory::Fresh => 0,
                Directory::Remembered => run.position,
            };
            let log = world.log_speed_of(run.arm, earlier_users) + machine.next_log_speed();
            Measured {
                group: run.group,
                position: run.position,
                arm: run.arm,
                value: SPEED * log.exp(),
            }
        })
        .collect();
    let metric = Metric::new("throughput", Better::MoreIsFaster).deciding();
    let comparison = Comparison {
        arms: ["A", "A again", "B"].map(|name| ArmReport {
            name: name.to_owned(),
            ..ArmReport::default()
        }),
        metrics: vec![(metric, runs)],
        repeated: Vec::new(),
    };
    comparison.judge()
}

/// The result of a script that runs all of A and then all of B in one directory that is
/// never emptied, and compares with Welch's test.
pub fn blocked(world: &World, runs: usize, seed: u64) -> Unpaired {
    let mut machine = Machine::new(world.drift, world.noise, 2 * runs, !seed);
    let mut block = |arm: usize, earlier_users: usize| -> Vec<f64> {
        (0..runs)
            .map(|_| world.log_speed_of(arm, earlier_users) + machine.next_log_speed())
            .map(|log| SPEED * log.exp())
            .collect()
    };
    let (first, second) = (block(arm::FIRST, 0), block(arm::SECOND, 1));
    compare_unpaired(&first, &second, 0.0).expect("simulated speeds are positive")
}
