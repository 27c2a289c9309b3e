//! Runs the plan of an experiment, run by run.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Experiment, save};
use crate::record::{ARM_NULL, Outcome, Record, Run};
use crate::schedule::interrupt::Interrupt;
use crate::schedule::memory_group::MemoryGroup;
use crate::schedule::progress::{ProgressDisplay, span};
use crate::schedule::run_directory::RunDirectory;
use crate::schedule::{Arm, Error, Planned, Point, RunPlan};
use crate::targets::Programs;
use crate::verdict::evidence::ceiling;
use crate::worker::{Job, call};
use crate::workload::{ByteCount, Memory, Span, Warmup};

/// Most repetitions of one disturbed group.
const REPEATS_MAX: u32 = 2;
/// Measured seconds of the generator's ceiling; its warm-up takes a quarter of this.
const CEILING_SECONDS: f64 = 2.0;

/// Time between two changes of the line of progress.
const SHOW: Duration = Duration::from_millis(100);

/// State of a running experiment.
pub struct Running<'a> {
    pub experiment: &'a Experiment,
    pub record: &'a mut Record,
    pub file: &'a Path,
    pub interrupt: &'a Interrupt,
    pub progress: ProgressDisplay,
    /// Cells for which the ceiling was measured or attempted.
    pub begun: BTreeSet<usize>,
    /// Cells and arms that failed or lost data and are not run again.
    pub given_up: BTreeSet<(usize, usize)>,
    /// Programs with known hashes.
    pub programs: Programs,
}

/// Reason why an experiment ends early.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error("it was interrupted")]
    Interrupted,
    #[error("{0}")]
    OutOfTime(String),
    #[error(transparent)]
    Broken(#[from] Error),
}

impl Running<'_> {
    /// Runs the plan until it is done, the budget is used up, or the user interrupts.
    pub fn everything(&mut self, plan: &RunPlan) -> Result<(), Stop> {
        let experiment = self.experiment;
        let of_one = experiment.runs_of_one_repetition();
        let (wanted, more) = plan.runs.split_at(of_one * experiment.repetitions);
        let disturbed = self.repetition(wanted)?;
        let mut next_group = experiment.repetitions_max;
        self.again(plan, disturbed, &mut next_group)?;
        for runs in more.chunks(of_one) {
            // A further repetition begins only if it fits as a whole, so that all cells
            // have equally many runs.
            if self.is_out_of_time(runs.len()) {
                break;
            }
            self.progress.add(runs.len() as u64);
            self.record
                .schedule
                .extend(experiment.schedule(runs, false));
            match self.repetition(runs) {
                Ok(disturbed) => self.again(plan, disturbed, &mut next_group)?,
                // The repetition took longer than those before; the wanted ones are complete.
                Err(Stop::OutOfTime(_)) => break,
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Runs the groups of `runs`; returns those that were disturbed.
    fn repetition<'a>(&mut self, runs: &'a [Planned]) -> Result<Vec<&'a [Planned]>, Stop> {
        let experiment = self.experiment;
        let mut disturbed = Vec::new();
        for group in runs.chunk_by(|a, b| (a.cell, a.group) == (b.cell, b.group)) {
            let cell = group[0].cell;
            // Each cell begins with its ceiling, so that the cells before it are complete
            // where the budget ends early.
            let has_ceiling = experiment.has_ceilings() && self.begun.insert(cell);
            if self.is_out_of_time(group.len() + usize::from(has_ceiling)) {
                return Err(Stop::OutOfTime(self.out_of_time()));
            }
            if has_ceiling {
                self.ceiling(cell)?;
            }
            if self.group(group, group[0].group, 0)? {
                disturbed.push(group);
            }
        }
        Ok(disturbed)
    }

    /// Repeats disturbed groups, and again those that were disturbed once more, as often as
    /// [`REPEATS_MAX`] and the budget allow.
    fn again(
        &mut self,
        plan: &RunPlan,
        mut disturbed: Vec<&[Planned]>,
        next_group: &mut usize,
    ) -> Result<(), Stop> {
        if !self.experiment.repeat_disturbed {
            return Ok(());
        }
        for attempt in 1..=REPEATS_MAX {
            for group in std::mem::take(&mut disturbed) {
                if self.is_out_of_time(group.len()) {
                    return Ok(());
                }
                self.replace(group);
                let again = plan.again(&group[0], *next_group);
                *next_group += 1;
                self.progress.add(again.len() as u64);
                if self.group(&again, group[0].group, attempt)? {
                    disturbed.push(group);
                }
            }
        }
        Ok(())
    }

    fn is_out_of_time(&self, runs: usize) -> bool {
        let Some(budget) = self.experiment.budget else {
            return false;
        };
        let spent = Duration::from_millis(
            crate::worker::unix_ms().saturating_sub(self.record.started_unix_ms),
        );
        let mean = self.progress.mean_run().unwrap_or_default();
        spent + mean * runs as u32 > budget
    }

    /// A sentence that says why there are fewer runs than planned.
    fn out_of_time(&self) -> String {
        let budget = span(self.experiment.budget.unwrap_or_default());
        let (done, planned) = self.progress.counts();
        let each = match self.progress.mean_run() {
            Some(mean) => format!(" of {} each, waiting included", span(mean)),
            None => String::new(),
        };
        format!("the budget of {budget} was used up after {done} of {planned} runs{each}")
    }

    /// Measures the generator's own limit in a cell with the null target.
    fn ceiling(&mut self, cell: usize) -> Result<(), Stop> {
        let mut workload = self.experiment.points[cell].workload.clone();
        workload.time.warmup = Warmup::Fixed(Span::seconds(CEILING_SECONDS / 4.0));
        workload.time.measure = Span::seconds(CEILING_SECONDS);
        workload.time.interval = Span::seconds(CEILING_SECONDS / 4.0);
        workload.arrival = crate::workload::Arrival::Closed;
        // The null target keeps nothing that a round could overwrite.
        workload.load.rounds = 0;
        workload.memory = Memory::default();
        let target = ARM_NULL.parse().expect("null is a target");
        let point = Point {
            cell: self.experiment.points[cell].cell.clone(),
            workload,
        };
        let planned = Planned {
            cell,
            group: 0,
            position: 0,
            arm: 0,
            work_seed: self.experiment.seed,
            directory_letters: 4,
            environment_bytes: 0,
        };
        let arm = Arm::of(ARM_NULL, &target);
        self.one(&point, &arm, (0, 0), &planned).map(drop)
    }

    /// The ceiling of the job's cell, if it was measured; `None` for the null target itself.
    fn ceiling_of(&self, job: &Job) -> Option<f64> {
        let runs = self.record.valid_runs();
        let here: Vec<&Run> = runs.filter(|run| run.cell.name == job.cell.name).collect();
        ceiling(&here).filter(|_| job.arm != ARM_NULL)
    }

    /// Runs all arms of a group, one after the other. Returns whether something disturbed
    /// them.
    fn group(&mut self, group: &[Planned], pair: usize, attempt: u32) -> Result<bool, Stop> {
        let mut disturbed = false;
        for planned in group {
            if self.given_up.contains(&(planned.cell, planned.arm)) {
                continue;
            }
            let experiment = self.experiment;
            let point = &experiment.points[planned.cell];
            let arm = &experiment.arms[planned.arm];
            let number = (pair as u32, attempt);
            let run = self.one(point, arm, number, planned)?;
            match run.outcome {
                Outcome::Measured => disturbed |= run.was_disturbed(),
                _ => {
                    self.given_up.insert((planned.cell, planned.arm));
                }
            }
        }
        Ok(disturbed)
    }

    /// Marks the runs of a group as replaced.
    fn replace(&mut self, group: &[Planned]) {
        let cell = &self.experiment.points[group[0].cell].cell.name;
        let pair = group[0].group as u32;
        for run in &mut self.record.runs {
            if run.cell.name == *cell && run.pair == pair && run.arm != ARM_NULL {
                run.replaced = true;
            }
        }
    }

    /// Runs one arm at one point as repetition and attempt `number`, and saves the record.
    fn one(
        &mut self,
        point: &Point,
        arm: &Arm,
        (pair, attempt): (u32, u32),
        planned: &Planned,
    ) -> Result<Run, Stop> {
        if self.interrupt.is_set() {
            return Err(Stop::Interrupted);
        }
        let experiment = self.experiment;
        let letters = planned.directory_letters;
        let limit = point.workload.memory.limit;
        let group = limit.map(MemoryGroup::make).transpose();
        let group = group.map_err(Error::MemoryGroup)?;
        let loop_fs = experiment.loop_fs.map(|it| it.for_memory(limit));
        let directory = RunDirectory::make(&experiment.parent, loop_fs, letters)?;
        let job = Job {
            cell: point.cell.clone(),
            arm: arm.name.clone(),
            pair,
            attempt,
            target: arm.target.clone(),
            binary: self.programs.of(&arm.target),
            workload: point.workload.clone(),
            seed: planned.work_seed,
            directory: directory.path(),
            device: directory.device(),
            threads: experiment.threads,
            verify_keys_max: experiment.verify_keys_max,
            quiet_seconds_max: experiment.quiet_seconds_max,
            memory_group: group.as_ref().map(|group| group.path().to_owned()),
            environment_bytes: planned.environment_bytes,
        };
        let side = match arm.name == arm.target.name {
            true => arm.name.clone(),
            false => format!("{} {}", arm.name, arm.target.name),
        };
        self.progress.begin(format!("{}, {side}", point.cell.name));
        let mut run = self.call(&job)?;
        if let (Some(group), Some(limit)) = (&group, limit) {
            explain_kills(&mut run.outcome, group.kills(), limit);
        }
        drop(directory);
        drop(group);
        self.progress.end(&run);
        self.record.runs.push(run.clone());
        save(self.record, self.file)?;
        match run.outcome {
            Outcome::Interrupted => Err(Stop::Interrupted),
            _ => Ok(run),
        }
    }

    fn call(&mut self, job: &Job) -> Result<Run, Stop> {
        let worker = self.experiment.worker(&job.target)?;
        let mut shown = Instant::now();
        let mut run = call(&worker, job, self.interrupt, &mut |stage, share, rate| {
            // A preload reports more often than the line needs to change.
            if shown.elapsed() > SHOW {
                shown = Instant::now();
                self.progress.stage(stage, share, rate);
            }
        });
        run.number = self.record.runs.len() as u32;
        run.ceiling = self.ceiling_of(job);
        Ok(run)
    }
}

/// Adds to the reason of a failed run that the kernel killed processes of it, if it did.
fn explain_kills(outcome: &mut Outcome, kills: u64, limit: ByteCount) {
    if let Outcome::Failed { because } = outcome
        && kills > 0
    {
        because.push_str(&format!(
            "; the kernel killed the run because it needed more memory than memory.limit = \
             {limit}: write a greater one, or fewer keys"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_the_kernel_killed_says_so_and_names_the_limit() {
        let because = |kills| {
            let mut outcome = Outcome::Failed {
                because: "the worker ended".into(),
            };
            explain_kills(&mut outcome, kills, ByteCount(64 << 20));
            match outcome {
                Outcome::Failed { because } => because,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(because(0), "the worker ended");
        let text = because(1);
        assert!(text.contains("memory.limit = 64MiB"), "{text}");
        let mut measured = Outcome::Measured;
        explain_kills(&mut measured, 1, ByteCount(1));
        assert_eq!(measured, Outcome::Measured);
    }
}
