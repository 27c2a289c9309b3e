//! Runs a plan: each run on a ground of its own, in a worker of its own, and
//! the record on disk after each of them.
//!
//! Runs that were disturbed are repeated with all arms of their group, since the
//! other arms lived in other minutes then; what was measured stays in the record,
//! marked as replaced. They wait until everything was measured once as often as it
//! was wanted, so that a budget is spent on a whole table first. A target that fails
//! or loses data is not asked again in that cell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ground::Ground;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{Arm, LoopFs, Plan, Planned, Point};
use crate::record::{ARM_NULL, Record};
use crate::targets::{Place, Programs, TargetSpec};
use crate::worker::{Job, WorkerProgram};

use running::{Luck, Running, Stop};

mod running;
#[cfg(test)]
mod tests;

/// Everything that is to be run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Where.
    pub points: Vec<Point>,
    /// What, at each of them.
    pub arms: Vec<Arm>,
    /// How often, for the record to be complete.
    pub repetitions: usize,
    /// How often where the budget leaves time: whole repetitions only.
    pub repetitions_max: usize,
    /// No group begins that would not end by then.
    pub budget: Option<Duration>,
    /// Of all draws.
    pub seed: u64,
    /// Where runs keep their data.
    pub parent: PathBuf,
    /// A file system for each run.
    pub loop_fs: Option<LoopFs>,
    /// Threads that ask servers.
    pub threads: u32,
    /// Keys to look up after each run.
    pub verify_keys_max: u64,
    /// Seconds to wait for a quiet machine before each run.
    pub quiet_seconds_max: f64,
    /// Whether disturbed groups are repeated.
    pub repeat_disturbed: bool,
}

impl Experiment {
    /// The plan, as the record shows it.
    pub fn plan(&self) -> Plan {
        Plan::new(
            self.points.len(),
            self.arms.len(),
            self.repetitions_max,
            self.seed,
        )
    }

    /// Runs everything; the record is whole or says why not, on disk too.
    pub fn run(
        &self,
        record: &mut Record,
        file: &Path,
        interrupt: &Interrupt,
    ) -> Result<(), String> {
        let plan = self.plan();
        let (wanted, _) = plan
            .runs
            .split_at(self.runs_of_one_repetition() * self.repetitions);
        record.schedule = self.schedule(wanted, self.has_ceilings());
        let save = |record: &Record| {
            record
                .save(file)
                .map_err(|error| format!("{}: {error}", file.display()))
        };
        save(record)?;
        let mut running = Running {
            progress: Progress::new(record.schedule.len() as u64),
            experiment: self,
            record,
            file,
            interrupt,
            begun: BTreeSet::new(),
            given_up: BTreeSet::new(),
            programs: Programs::default(),
        };
        let stopped = running.everything(&plan);
        running.progress.finish();
        record.complete = stopped.is_ok();
        record.incomplete_because = match &stopped {
            Ok(()) => None,
            Err(Stop::Interrupted) => Some("it was interrupted".into()),
            Err(Stop::OutOfTime(what) | Stop::Broken(what)) => Some(what.clone()),
        };
        save(record)?;
        match stopped {
            Err(Stop::Broken(what)) => Err(what),
            _ => Ok(()),
        }
    }

    fn runs_of_one_repetition(&self) -> usize {
        self.points.len() * self.arms.len()
    }

    /// Runs of a plan as the record shows them, on wish with the ceiling of each cell
    /// before its first.
    fn schedule(&self, runs: &[Planned], ceilings: bool) -> Vec<crate::record::Planned> {
        let mut begun = BTreeSet::new();
        let mut schedule = Vec::new();
        for planned in runs {
            let at = |arm: &str, pair| crate::record::Planned {
                cell: self.points[planned.cell].cell.name.clone(),
                arm: arm.to_owned(),
                pair,
                point: planned.cell as u32,
            };
            if begun.insert(planned.cell) && ceilings {
                schedule.push(at(ARM_NULL, 0));
            }
            let arm = &self.arms[planned.arm].name;
            schedule.push(at(arm, planned.group as u32));
        }
        schedule
    }

    /// The generator of embedded targets has a ceiling; what asks servers is
    /// bounded by their protocol, and its processor time is shown beside theirs.
    fn has_ceilings(&self) -> bool {
        let is_embedded = |arm: &Arm| matches!(arm.target.place, Place::Embedded { .. });
        let is_null = |arm: &Arm| arm.name == ARM_NULL;
        self.arms.iter().any(is_embedded) && !self.arms.iter().any(is_null)
    }

    fn job(
        &self,
        point: &Point,
        arm: &Arm,
        (pair, attempt): (u32, u32),
        luck: Luck,
        ground: &Ground,
    ) -> Job {
        Job {
            cell: point.cell.clone(),
            arm: arm.name.clone(),
            pair,
            attempt,
            target: arm.target.clone(),
            binary: None,
            workload: point.workload.clone(),
            seed: luck.seed,
            directory: ground.directory(),
            device: ground.device(),
            threads: self.threads,
            verify_keys_max: self.verify_keys_max,
            quiet_seconds_max: self.quiet_seconds_max,
            environment_bytes: luck.environment_bytes,
        }
    }

    /// The program that runs a target.
    pub(super) fn worker(&self, target: &TargetSpec) -> Result<WorkerProgram, String> {
        let own = || std::env::current_exe().map_err(|error| error.to_string());
        let plain = |program| WorkerProgram {
            program,
            handoff: None,
        };
        let Place::Embedded {
            target,
            worker,
            handoff,
        } = &target.place
        else {
            return own().map(plain);
        };
        if let Some(worker) = worker {
            return Ok(plain(worker.clone()));
        }
        let offers = crate::targets::offered();
        if offers.iter().any(|offer| offer.name == target.as_str()) {
            return Ok(WorkerProgram {
                program: own()?,
                handoff: handoff.clone(),
            });
        }
        let names: Vec<&str> = offers.iter().map(|offer| offer.name).collect();
        Err(format!(
            "there is no target `{target}` in this lab: it has {}; also `server:PATH`, \
             `endpoints:HOST:PORT` and `{target}@PATH` for the worker of another build. LevelDB, RocksDB, LMDB, redb, fjall \
             and sled are in inkstone-lab-peers, which `cargo build --release --manifest-path \
             crates/lab-peers/Cargo.toml` makes",
            names.join(", ")
        ))
    }
}
