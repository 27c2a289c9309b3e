//! Experiments in virtual time, through the plans and verdicts of real ones.

use super::machine::{Drift, Machine};
use crate::schedule::Plan;
use crate::statistics::log_ratio::percent;
use crate::verdict::{
    ArmReport, Better, Comparison, Judgement, Measured, Metric, Rules, Unpaired, arm,
    compare_unpaired,
};

/// What a run finds in the directory that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// A fresh one for each run: what the lab does.
    Fresh,
    /// The machine remembers the first user of each triple: a state that no new
    /// directory wipes out (dirty pages, a device's own cache).
    Remembered,
}

/// A world with known truths.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// How the machine changes.
    pub drift: Drift,
    /// Standard deviation of a single run, as a logarithm.
    pub noise: f64,
    /// Logarithm of B's true speed over A's.
    pub truth: f64,
    /// Logarithm of the speed of whoever is not the first user of a directory.
    pub second_user: f64,
    /// Whether new directories wipe that out.
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
        let user = if earlier_users > 0 {
            self.second_user
        } else {
            0.0
        };
        truth + user
    }
}

/// Operations per second of a run that nothing disturbs.
const SPEED: f64 = 10_000.0;

/// What a comparison of the lab finds in a world.
pub fn interleaved(world: &World, triples: usize, seed: u64) -> Judgement {
    let plan = Plan::new(1, arm::COUNT, triples, seed);
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
    let metric = Metric::new("throughput", "1/s", Better::MoreIsFaster).deciding();
    let comparison = Comparison {
        arms: ["A", "A again", "B"].map(|name| ArmReport {
            name: name.to_owned(),
            ..ArmReport::default()
        }),
        metrics: vec![(metric, runs)],
        repeated: Vec::new(),
    };
    comparison.judge(&Rules::default())
}

/// What a script finds that runs all of A and then all of B, in one directory
/// that nobody empties, and compares with Welch's test.
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

/// What the blocked script would print.
pub fn blocked_percent(found: &Unpaired) -> f64 {
    percent(found.middle)
}
