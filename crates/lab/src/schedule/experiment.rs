//! Runs a plan: each run on a ground of its own, in a worker of its own, and
//! the record on disk after each of them.
//!
//! Runs that were disturbed are repeated with all arms of their group, since the
//! other arms lived in other minutes then; what was measured stays in the record,
//! marked as replaced. A target that fails or loses data is not asked again in
//! that cell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ground::Ground;
use super::interrupt::Interrupt;
use super::progress::{Progress, span};
use super::{Arm, LoopFs, Plan, Planned, Point};
use crate::record::{ARM_NULL, Outcome, Record, Run};
use crate::targets::{Place, TargetSpec};
use crate::verdict::evidence::ceiling;
use crate::worker::{Ended, Job, Stage, Watcher, WorkerProgram, call};
use crate::workload::{Span, Warmup};

/// Repetitions of one disturbed group.
const REPEATS_MAX: u32 = 2;
/// What the generator's ceiling takes: it needs no warm-up to speak of.
const CEILING_SECONDS: f64 = 2.0;

/// Everything that is to be run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Where.
    pub points: Vec<Point>,
    /// What, at each of them.
    pub arms: Vec<Arm>,
    /// How often.
    pub repetitions: usize,
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

/// What running has at hand.
struct Running<'a> {
    experiment: &'a Experiment,
    record: &'a mut Record,
    file: &'a Path,
    interrupt: &'a Interrupt,
    progress: Progress,
    /// Cells and arms that are not asked again.
    given_up: BTreeSet<(usize, usize)>,
}

/// What is drawn for a run.
#[derive(Clone, Copy)]
struct Luck {
    seed: u64,
    directory_letters: usize,
    environment_bytes: usize,
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
enum Stop {
    Interrupted,
    OutOfTime(String),
    Broken(String),
}

impl Experiment {
    /// The plan, as the record shows it.
    pub fn plan(&self) -> Plan {
        Plan::new(
            self.points.len(),
            self.arms.len(),
            self.repetitions,
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
        record.schedule = self.schedule(&plan);
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
            given_up: BTreeSet::new(),
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

    fn schedule(&self, plan: &Plan) -> Vec<crate::record::Planned> {
        let mut begun = BTreeSet::new();
        let mut schedule = Vec::new();
        for planned in &plan.runs {
            let at = |arm: &str, pair| crate::record::Planned {
                cell: self.points[planned.cell].cell.name.clone(),
                arm: arm.to_owned(),
                pair,
                point: planned.cell as u32,
            };
            if begun.insert(planned.cell) && self.has_ceilings() {
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

impl Running<'_> {
    fn everything(&mut self, plan: &Plan) -> Result<(), Stop> {
        let experiment = self.experiment;
        let mut begun = BTreeSet::new();
        let mut next_group = experiment.repetitions;
        for group in plan
            .runs
            .chunk_by(|a, b| (a.cell, a.group) == (b.cell, b.group))
        {
            let cell = group[0].cell;
            // A cell begins with its ceiling: where the budget ends early, the cells
            // before it are whole.
            let has_ceiling = begun.insert(cell) && experiment.has_ceilings();
            if self.is_out_of_time(group.len() + usize::from(has_ceiling)) {
                return Err(Stop::OutOfTime(self.out_of_time()));
            }
            if has_ceiling {
                self.ceiling(&experiment.points[cell])?;
            }
            let mut disturbed = self.group(group, group[0].group, 0)?;
            for attempt in 1..=REPEATS_MAX {
                if !disturbed || !experiment.repeat_disturbed || self.is_out_of_time(group.len()) {
                    break;
                }
                self.replace(group);
                let again = plan.again(&group[0], next_group);
                next_group += 1;
                self.progress.add(again.len() as u64);
                disturbed = self.group(&again, group[0].group, attempt)?;
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
        let job = experiment.job(point, arm, number, luck, &ground);
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

#[cfg(test)]
mod tests;
