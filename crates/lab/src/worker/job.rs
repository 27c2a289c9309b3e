//! What a worker is told, and what it says.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::record::{
    Binary, BlockDevice, Cell, Disturbance, DurabilityJudgement, Judged, LoadResult, Outcome,
    ProcessCosts, Run, Steadiness, Verification,
};
use crate::schedule::Point;
use crate::targets::TargetSpec;
use crate::workload::Workload;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Which point of the experiment.
    pub cell: Cell,
    /// Which side.
    pub arm: String,
    /// Which repetition.
    pub pair: u32,
    /// How many attempts at it came before.
    pub attempt: u32,
    /// What is measured.
    pub target: TargetSpec,
    /// What the lab knows of its program; none, and the worker finds it out.
    #[serde(default)]
    pub binary: Option<Binary>,
    /// With one number of clients.
    pub workload: Workload,
    /// Of all draws.
    pub seed: u64,
    /// Empty, and the run's own.
    pub directory: PathBuf,
    /// Below the directory.
    pub device: Option<BlockDevice>,
    /// Threads that ask a server.
    pub threads: u32,
    /// Keys to look up afterwards, at most; 0 verifies nothing.
    pub verify_keys_max: u64,
    /// Seconds to wait for a quiet machine, at most.
    pub quiet_seconds_max: f64,
    /// Bytes that its environment is longer by: they move its stack, and so make
    /// the layout of addresses another one for each run.
    pub environment_bytes: usize,
}

/// What a worker says, one line each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// Where it is.
    Progress {
        /// What it does.
        stage: Stage,
        /// How much of it is done, from 0 to 1.
        share: f64,
        /// Operations per second just now; 0 where there are none.
        rate: f64,
    },
    /// The last line.
    Done(Box<Run>),
}

/// What a worker does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Waits for a quiet machine and starts the target.
    Open,
    /// Writes what must be there.
    Load,
    /// Runs the load without counting.
    Warmup,
    /// Counts.
    Measure,
    /// Reads back.
    Verify,
}

impl Stage {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Open => "open",
            Stage::Load => "load",
            Stage::Warmup => "warm-up",
            Stage::Measure => "measure",
            Stage::Verify => "verify",
        }
    }
}

impl Run {
    /// A run of this job about which nothing is known yet.
    pub fn of(job: &Job) -> Run {
        let nothing_yet = "the run did not get so far";
        Run {
            cell: job.cell.clone(),
            arm: job.arm.clone(),
            pair: job.pair,
            attempt: job.attempt,
            number: 0,
            replaced: false,
            target: job.target.identity(job.binary.clone()),
            workload: job.workload.clone(),
            seed: job.seed,
            started_unix_ms: unix_ms(),
            outcome: Outcome::Interrupted,
            load: LoadResult::default(),
            ceiling: None,
            steadiness: Steadiness::default(),
            client: ProcessCosts::default(),
            server: None,
            device: None,
            device_settled: None,
            user_bytes_written: 0,
            footprint_bytes: None,
            disturbance: Disturbance::default(),
            taints: Vec::new(),
            verification: Verification {
                skipped_because: Some(nothing_yet.into()),
                ..Verification::default()
            },
            durability: DurabilityJudgement {
                judged: Judged::Unknown,
                because: nothing_yet.into(),
            },
        }
    }
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

impl Job {
    /// The null target under a workload, with nothing around it: no device, no
    /// verification, no waiting.
    pub fn bare(workload: Workload) -> Job {
        Job {
            cell: Point::of(&workload).swap_remove(0).cell,
            arm: "A".into(),
            pair: 0,
            attempt: 0,
            target: "null".parse().expect("null is a target"),
            binary: None,
            workload,
            seed: 1,
            directory: ".".into(),
            device: None,
            threads: 1,
            verify_keys_max: 0,
            quiet_seconds_max: 0.0,
            environment_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_its_line() {
        let workload = crate::workload::parse("test", "name = \"a\"").unwrap();
        let job = Job {
            target: "server:bin/etcd,members=3".parse().unwrap(),
            seed: u64::MAX,
            quiet_seconds_max: 1.5,
            ..Job::bare(workload)
        };
        let line = serde_json::to_string(&job).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Job>(&line).unwrap(), job);
    }

    #[test]
    fn progress_survives_its_line() {
        let line = Line::Progress {
            stage: Stage::Warmup,
            share: 0.5,
            rate: 1e6,
        };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
