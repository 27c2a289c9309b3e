//! Runs a plan: each run in a directory and a worker process of its own. The record is saved
//! after each run.
//!
//! A disturbed run is repeated together with all arms of its group, because runs are compared
//! only with runs of the same minutes. The replaced runs stay in the record, marked as
//! replaced. Repetitions are made after the planned runs, so that a budget is spent on a
//! whole table first. A target that fails or loses data is not run again in that cell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::interrupt::Interrupt;
use super::progress::ProgressDisplay;
use super::{Arm, Error, LoopFs, Planned, Point, RunPlan};
use crate::record::{ARM_NULL, Record};
use crate::targets::{Programs, TargetKind, TargetSpec, offered};
use crate::worker::WorkerProgram;

use running::{Running, Stop};

mod running;
#[cfg(test)]
mod tests;

/// An experiment: what is run, how often, and under which limits.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub points: Vec<Point>,
    /// The arms that run at each point.
    pub arms: Vec<Arm>,
    /// Number of repetitions of a complete record.
    pub repetitions: usize,
    /// Greatest number of repetitions where the budget leaves time; further repetitions are
    /// begun only if they fit as a whole.
    pub repetitions_max: usize,
    /// Time limit: no group begins that would probably end later.
    pub budget: Option<Duration>,
    /// Seed of all draws.
    pub seed: u64,
    /// Folder in which runs keep their data.
    pub parent: PathBuf,
    /// File system that is made for each run.
    pub loop_fs: Option<LoopFs>,
    /// Threads that send requests to servers.
    pub threads: u32,
    /// Greatest number of keys to look up after each run.
    pub verify_keys_max: u64,
    /// Greatest time to wait for a quiet machine before each run, in seconds.
    pub quiet_seconds_max: f64,
    /// Whether disturbed groups are repeated.
    pub repeat_disturbed: bool,
}

impl Experiment {
    /// The plan of all runs, including those beyond `repetitions`.
    pub fn plan(&self) -> RunPlan {
        RunPlan::new(
            self.points.len(),
            self.arms.len(),
            self.repetitions_max,
            self.seed,
        )
    }

    /// Runs the experiment and saves the record in `file` after each run. Afterwards the record
    /// is complete or says why not. Fails where the lab itself cannot go on, for example
    /// because the record cannot be saved.
    pub fn run(
        &self,
        record: &mut Record,
        file: &Path,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let plan = self.plan();
        let (wanted, _) = plan
            .runs
            .split_at(self.runs_of_one_repetition() * self.repetitions);
        record.schedule = self.schedule(wanted, self.has_ceilings());
        save(record, file)?;
        let mut running = Running {
            progress: ProgressDisplay::new(record.schedule.len() as u64),
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
        record.incomplete_because = stopped.as_ref().err().map(Stop::to_string);
        save(record, file)?;
        match stopped {
            Err(Stop::Broken(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn runs_of_one_repetition(&self) -> usize {
        self.points.len() * self.arms.len()
    }

    /// The runs of a plan as the record shows them. With `ceilings`, the run of the null target
    /// stands before the first run of each cell.
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

    /// Whether the null target is measured in each cell. It shows the limit of the generator of
    /// embedded targets. The generator of servers is limited by the protocol; for it reports
    /// show the processor time of the clients.
    fn has_ceilings(&self) -> bool {
        let is_embedded = |arm: &Arm| matches!(arm.target.kind, TargetKind::Embedded { .. });
        let is_null = |arm: &Arm| arm.name == ARM_NULL;
        self.arms.iter().any(is_embedded) && !self.arms.iter().any(is_null)
    }

    /// The worker program for a target. Fails where no program is known that has the target.
    pub(super) fn worker(&self, target: &TargetSpec) -> Result<WorkerProgram, Error> {
        let mut under = None;
        if let TargetKind::Embedded {
            target,
            worker,
            handoff,
        } = &target.kind
        {
            if let Some(program) = worker.clone() {
                return Ok(WorkerProgram {
                    program,
                    handoff: None,
                });
            }
            let offers: Vec<&str> = offered().iter().map(|offer| offer.name).collect();
            if !offers.contains(&target.as_str()) {
                return Err(Error::UnknownTarget {
                    target: target.clone(),
                    offers: offers.join(", "),
                });
            }
            under = handoff.clone();
        }
        Ok(WorkerProgram {
            program: std::env::current_exe().map_err(Error::OwnPath)?,
            handoff: under,
        })
    }
}

/// Saves the record after a run, or before the first.
fn save(record: &Record, file: &Path) -> Result<(), Error> {
    record.save(file).map_err(|error| Error::Record {
        file: file.to_owned(),
        error,
    })
}
