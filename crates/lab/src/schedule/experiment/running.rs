//! Walks the plan of an experiment, run by run.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Experiment;
use crate::record::{ARM_NULL, Outcome, Record, Run};
use crate::schedule::ground::Ground;
use crate::schedule::interrupt::Interrupt;
use crate::schedule::progress::{Progress, span};
use crate::schedule::{Arm, Plan, Planned, Point};
use crate::targets::Programs;
use crate::verdict::evidence::ceiling;
use crate::worker::{Ended, Job, Stage, Watcher, call};
use crate::workload::{Span, Warmup};

/// Repetitions of one disturbed group.
const REPEATS_MAX: u32 = 2;
/// What the generator's ceiling takes: it needs no warm-up to speak of.
const CEILING_SECONDS: f64 = 2.0;

/// What running has at hand.
pub struct Running<'a> {
    pub experiment: &'a Experiment,
    pub record: &'a mut Record,
    pub file: &'a Path,
    pub interrupt: &'a Interrupt,
    pub progress: Progress,
    /// Cells whose ceiling was measured.
    pub begun: BTreeSet<usize>,
    /// Cells and arms that are not asked again.
    pub given_up: BTreeSet<(usize, usize)>,
    /// Whose hashes are known.
    pub programs: Programs,
}

/// What is drawn for a run.
#[derive(Clone, Copy)]
pub struct Luck {
    pub seed: u64,
    pub directory_letters: usize,
    pub environment_bytes: usize,
}

impl Luck {
    fn of(planned: &Planned) -> Luck {
        Luck {
            seed: planned.work_seed,
            directory_letters: planned.directory_letters,
            environment_bytes: planned.environment_bytes,
        }
    }
}

/// Why no more runs come.
pub enum Stop {
    Interrupted,
    OutOfTime(String),
    Broken(String),
}

impl Running<'_> {
    /// All of it, as far as time and people allow.
    pub fn everything(&mut self, plan: &Plan) -> Result<(), Stop> {
        let experiment = self.experiment;
        let of_one = experiment.runs_of_one_repetition();
        let (wanted, more) = plan.runs.split_at(of_one * experiment.repetitions);
        let disturbed = self.repetition(wanted)?;
        let mut next_group = experiment.repetitions_max;
        self.again(plan, disturbed, &mut next_group)?;
        for runs in more.chunks(of_one) {
            // Whoever looks at the table sees as many runs in each of its cells.
            if self.is_out_of_time(runs.len()) {
                break;
            }
            self.progress.add(runs.len() as u64);
            self.record
                .schedule
                .extend(experiment.schedule(runs, false));
            match self.repetition(runs) {
                Ok(disturbed) => self.again(plan, disturbed, &mut next_group)?,
                // It took longer than those before; what was wanted is there.
                Err(Stop::OutOfTime(_)) => break,
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Each cell as often as it is among `runs`; the groups that were disturbed.
    fn repetition<'a>(&mut self, runs: &'a [Planned]) -> Result<Vec<&'a [Planned]>, Stop> {
        let experiment = self.experiment;
        let mut disturbed = Vec::new();
        for group in runs.chunk_by(|a, b| (a.cell, a.group) == (b.cell, b.group)) {
            let cell = group[0].cell;
            // A cell begins with its ceiling: where the budget ends early, the cells
            // before it are whole.
            let has_ceiling = experiment.has_ceilings() && self.begun.insert(cell);
            if self.is_out_of_time(group.len() + usize::from(has_ceiling)) {
                return Err(Stop::OutOfTime(self.out_of_time()));
            }
            if has_ceiling {
                self.ceiling(&experiment.points[cell])?;
            }
            if self.group(group, group[0].group, 0)? {
                disturbed.push(group);
            }
        }
        Ok(disturbed)
    }

    /// Groups that were disturbed once more, and those that are again once more, while
    /// there is time.
    fn again(
        &mut self,
        plan: &Plan,
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

    /// Why there is less than was planned, for people.
    fn out_of_time(&self) -> String {
        let budget = span(self.experiment.budget.unwrap_or_default());
        let (done, planned) = self.progress.counts();
        let each = match self.progress.mean_run() {
            Some(mean) => format!(" of {} each, waiting included", span(mean)),
            None => String::new(),
        };
        format!("the budget of {budget} was used up after {done} of {planned} runs{each}")
    }

    /// The generator's own limit in a cell.
    fn ceiling(&mut self, point: &Point) -> Result<(), Stop> {
        let mut workload = point.workload.clone();
        workload.time.warmup = Warmup::Fixed(Span::seconds(CEILING_SECONDS / 4.0));
        workload.time.measure = Span::seconds(CEILING_SECONDS);
        workload.time.interval = Span::seconds(CEILING_SECONDS / 4.0);
        workload.arrival = crate::workload::Arrival::Closed;
        let target = ARM_NULL.parse().expect("null is a target");
        let point = Point {
            cell: point.cell.clone(),
            workload,
        };
        let arm = Arm {
            name: ARM_NULL.into(),
            target,
        };
        let luck = Luck {
            seed: self.experiment.seed,
            directory_letters: 4,
            environment_bytes: 0,
        };
        self.one(&point, &arm, (0, 0), luck).map(drop)
    }

    /// Of the cell, once it was measured; the null target has none.
    fn ceiling_of(&self, job: &Job) -> Option<f64> {
        let runs = self.record.valid_runs();
        let here: Vec<&Run> = runs.filter(|run| run.cell.name == job.cell.name).collect();
        ceiling(&here).filter(|_| job.arm != ARM_NULL)
    }

    /// All arms, next to each other; true when something disturbed them.
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
            let run = self.one(point, arm, number, Luck::of(planned))?;
            match run.outcome {
                Outcome::Measured => disturbed |= run.was_disturbed(),
                _ => {
                    self.given_up.insert((planned.cell, planned.arm));
                }
            }
        }
        Ok(disturbed)
    }

    /// The runs of a group count no more.
    fn replace(&mut self, group: &[Planned]) {
        let cell = &self.experiment.points[group[0].cell].cell.name;
        let pair = group[0].group as u32;
        for run in &mut self.record.runs {
            if run.cell.name == *cell && run.pair == pair && run.arm != ARM_NULL {
                run.replaced = true;
            }
        }
    }

    fn one(
        &mut self,
        point: &Point,
        arm: &Arm,
        number: (u32, u32),
        luck: Luck,
    ) -> Result<Run, Stop> {
        if self.interrupt.is_set() {
            return Err(Stop::Interrupted);
        }
        let experiment = self.experiment;
        let ground = Ground::make(
            &experiment.parent,
            experiment.loop_fs,
            luck.directory_letters,
        );
        let ground = ground.map_err(Stop::Broken)?;
        let job = Job {
            binary: self.programs.of(&arm.target),
            ..experiment.job(point, arm, number, luck, &ground)
        };
        let side = match arm.name == arm.target.name {
            true => arm.name.clone(),
            false => format!("{} {}", arm.name, arm.target.name),
        };
        self.progress.begin(format!("{}, {side}", point.cell.name));
        let run = self.call(&job)?;
        drop(ground);
        self.progress.end(&run);
        self.record.runs.push(run.clone());
        let saved = self.record.save(self.file);
        saved.map_err(|error| Stop::Broken(format!("{}: {error}", self.file.display())))?;
        match run.outcome {
            Outcome::Interrupted => Err(Stop::Interrupted),
            _ => Ok(run),
        }
    }

    fn call(&mut self, job: &Job) -> Result<Run, Stop> {
        let worker = self.experiment.worker(&job.target).map_err(Stop::Broken)?;
        let mut watch = Watch {
            progress: &mut self.progress,
            interrupt: self.interrupt,
            shown: Instant::now(),
        };
        let mut run = match call(&worker, job, &mut watch) {
            Ended::Run(run) => *run,
            Ended::Interrupted => Run::of(job),
            Ended::Died(because) => Run {
                outcome: Outcome::Failed { because },
                ..Run::of(job)
            },
        };
        run.number = self.record.runs.len() as u32;
        run.ceiling = self.ceiling_of(job);
        Ok(run)
    }
}

struct Watch<'a> {
    progress: &'a mut Progress,
    interrupt: &'a Interrupt,
    shown: Instant,
}

const SHOW: Duration = Duration::from_millis(100);

impl Watcher for Watch<'_> {
    fn progress(&mut self, stage: Stage, share: f64, rate: f64) {
        // A preload reports more often than anybody reads.
        if self.shown.elapsed() > SHOW {
            self.shown = Instant::now();
            self.progress.stage(stage, share, rate);
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }
}
