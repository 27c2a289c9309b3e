//! Messages between the lab and a worker: the job, and the worker's lines.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::load::Stage;
use crate::record::{Binary, BlockDevice, Cell, DurabilityJudgement, Judged, Run, Verification};
use crate::schedule::Point;
use crate::targets::TargetSpec;
use crate::workload::Workload;

/// A job for a worker: one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub cell: Cell,
    /// Name of the arm.
    pub arm: String,
    /// Number of the repetition.
    pub pair: u32,
    /// Number of earlier attempts at this repetition.
    pub attempt: u32,
    pub target: TargetSpec,
    /// The target's program, if the lab has hashed it; otherwise the worker does.
    #[serde(default)]
    pub binary: Option<Binary>,
    /// The workload, with one number of clients.
    pub workload: Workload,
    /// Seed of all draws.
    pub seed: u64,
    /// Directory of the run, empty at first.
    pub directory: PathBuf,
    /// Device of the directory.
    pub device: Option<BlockDevice>,
    /// Threads that send requests to a server.
    pub threads: u32,
    /// Greatest number of keys to look up afterwards; 0 verifies nothing.
    pub verify_keys_max: u64,
    /// Greatest time to wait for a quiet machine, in seconds.
    pub quiet_seconds_max: f64,
    /// Control group that the worker enters, if the workload limits its memory.
    #[serde(default)]
    pub memory_group: Option<PathBuf>,
    /// Bytes by which the lab has extended the worker's environment. They shift the stack,
    /// so that each run has another layout of addresses.
    pub environment_bytes: usize,
}

/// A line of a worker's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    Progress {
        stage: Stage,
        /// Share of the stage that is done, from 0 to 1.
        share: f64,
        /// Present operations per second; 0 in stages without operations.
        rate: f64,
    },
    /// The last line.
    Done(Box<Run>),
}

impl Run {
    /// A run of this job without results yet.
    pub fn of(job: &Job) -> Run {
        let mut workload = job.workload.clone();
        // Records are published, and the user's folders are private.
        let generator = &mut workload.clients.generator;
        *generator = generator
            .as_ref()
            .and_then(|path| Some(path.file_name()?.into()));
        let nothing_yet = "the run did not get so far";
        Run {
            cell: job.cell.clone(),
            arm: job.arm.clone(),
            pair: job.pair,
            attempt: job.attempt,
            target: job.target.identity(job.binary.clone()),
            workload,
            seed: job.seed,
            started_unix_ms: unix_ms(),
            verification: Verification {
                skipped_because: Some(nothing_yet.into()),
                ..Verification::default()
            },
            durability: DurabilityJudgement {
                judged: Judged::Unknown,
                because: nothing_yet.into(),
            },
            ..Run::default()
        }
    }
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

impl Job {
    /// A job for the null target under a workload, without device, verification and waiting.
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
            memory_group: None,
            environment_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_parsed_from_its_line() {
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
    fn progress_is_parsed_from_its_line() {
        let line = Line::Progress {
            stage: Stage::Warmup,
            share: 0.5,
            rate: 1e6,
        };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
