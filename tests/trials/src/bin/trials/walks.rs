//! Random walks of the membership of real clusters, beside the same walks on etcd.
//!
//! ```text
//!   seed ─► steps over slots ─┬─► inkstone   3 to 5 processes ─┬─► each answer compared
//!           (kill, move, add, │                                │   time to serve
//!            promote, ...)    └─► etcd       3 to 5 processes ─┘   every member catches up
//! ```
//!
//! Both systems go through a walk at the same time, step by step. After each step
//! with a majority of voters up, a client at every voter puts until one put is
//! acknowledged: that is the time to serve. Two election timeouts are promised;
//! how many steps took longer is reported, and more than 10 s is a failure. A
//! difference between answers is a failure unless ours is the better one.
//!
//! A seed repeats the steps; when they meet elections, the machine decides.

mod act;
mod answer;
mod course;
mod generate;
mod model;
mod perform;
mod ports;
mod recovery;
mod step;
mod summary;
mod system;
mod tally;

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    time::Instant,
};

use futures_util::{TryStreamExt, stream};

use crate::{
    etcd,
    live_line::Progress,
    machine::Machine,
    options::until_interrupted,
    peer_secret,
    process::{Outcome, inkstone_binary},
};
use generate::Walk;
use step::Step;
use summary::Summary;
use system::Program;

const HEARTBEAT_MS: u32 = 100;
const ELECTION_MS: u32 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// Without etcd: the model is the measure of each answer
    Inkstone,
}

#[derive(clap::Args)]
pub struct Options {
    /// How many walks
    #[arg(long, default_value_t = 100)]
    walks: u64,
    /// Decides the steps; the walk number i, from 0 on, has the seed S + i
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// One system alone
    #[arg(long)]
    only: Option<Only>,
    /// All members of ours get a secret
    #[arg(long)]
    secret: bool,
    /// Steps of each walk, without those of its end [default: 8 to 16]
    #[arg(long)]
    steps: Option<usize>,
    /// Walks at the same time
    #[arg(long, default_value_t = 1, value_name = "N")]
    jobs: usize,
    /// Prints the steps of the walks, and performs none
    #[arg(long)]
    list: bool,
    /// The server to test [default: ours, built now]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

pub fn run(options: &Options) -> Outcome {
    let walks = options.seed..options.seed + options.walks;
    let walks = walks.map(|seed| generate::walk(seed, options.steps));
    if options.list {
        walks.for_each(|walk| println!("{walk}\n"));
        return Ok(());
    }
    let directory = tempfile::Builder::new().prefix("walks-").tempdir()?;
    let (ours, etcd) = programs(options, directory.path())?;
    println!("{}", Machine::here()?.line());
    let trial = Trial {
        ours,
        etcd,
        directory: directory.path().to_owned(),
        first_seed: options.seed,
        walks: options.walks,
        progress: RefCell::new(Progress::begin()),
        summary: RefCell::new(Summary::default()),
    };
    let walks = stream::iter(walks.map(Ok));
    let jobs = options.jobs.max(1);
    let walk_all = walks.try_for_each_concurrent(jobs, |walk| trial.walk(walk));
    let walked = until_interrupted(walk_all);
    let mut summary = trial.summary.borrow_mut();
    println!("\n{}", summary.text());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("repeat with: cargo trials {}", arguments.join(" "));
    if summary.keeps_logs() {
        let kept = directory.keep();
        println!(
            "logs of these walks, and data of failed ones: {}",
            kept.display()
        );
    }
    walked?;
    summary.verdict()
}

/// Our server and etcd's, with the flags of every member.
fn programs(options: &Options, directory: &Path) -> Outcome<(Program, Option<Program>)> {
    let program = |name, binary: PathBuf| Program {
        name,
        server: harness::Program::new(binary).with(&[
            format!("--heartbeat-interval={HEARTBEAT_MS}"),
            format!("--election-timeout={ELECTION_MS}"),
            "--initial-cluster-token=walks".to_owned(),
        ]),
    };
    let mut ours = program("inkstone", inkstone_binary(options.binary.as_deref())?);
    if options.secret {
        let file = peer_secret::write(directory)?;
        let flag = format!("--peer-secret-file={}", file.display());
        ours.server.flags.push(flag);
    }
    let etcd = match options.only {
        Some(Only::Inkstone) => None,
        None => Some(program("etcd", etcd::binary("etcd")?)),
    };
    Ok((ours, etcd))
}

struct Trial {
    ours: Program,
    etcd: Option<Program>,
    directory: PathBuf,
    first_seed: u64,
    walks: u64,
    progress: RefCell<Progress>,
    summary: RefCell<Summary>,
}

impl Trial {
    async fn walk(&self, walk: Walk) -> Outcome {
        let directory = self.directory.join(format!("seed-{}", walk.seed));
        std::fs::create_dir_all(&directory)?;
        let began = Instant::now();
        let tell = |number, step| self.tell(&walk, number, step);
        let etcd = self.etcd.as_ref();
        let course = course::run(&walk, &self.ours, etcd, &directory, tell).await?;
        std::fs::write(directory.join("walk.log"), course.lines.join("\n"))?;
        if !course.is_worth_keeping() {
            std::fs::remove_dir_all(&directory)?;
        } else if course.failures.is_empty() {
            remove_data(&directory)?;
        }
        self.summary
            .borrow_mut()
            .add(&walk, course, began.elapsed());
        Ok(())
    }

    /// Shows the line about the walk that is under way.
    fn tell(&self, walk: &Walk, number: usize, step: Step) {
        let failed = self.summary.borrow().failed.len();
        let (at, of) = (walk.seed - self.first_seed + 1, self.walks);
        let (seed, steps) = (walk.seed, walk.steps.len());
        self.progress.borrow_mut().show(&format!(
            "walk {at} of {of} (seed {seed}), step {} of {steps}: {step}; {failed} failed",
            number + 1
        ));
    }
}

/// Leaves the logs of each system: segments take hundreds of megabytes.
fn remove_data(directory: &Path) -> Outcome {
    for system in std::fs::read_dir(directory)? {
        let system = system?.path();
        if !system.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(system)? {
            let path = entry?.path();
            if path.is_dir() {
                std::fs::remove_dir_all(path)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_stay_when_data_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let system = place.path().join("inkstone");
        std::fs::create_dir_all(system.join("a/wal")).unwrap();
        for file in ["walk.log", "inkstone/a.log", "inkstone/a/wal/0"] {
            std::fs::write(place.path().join(file), "").unwrap();
        }
        remove_data(place.path()).unwrap();
        assert!(!system.join("a").exists());
        assert!(system.join("a.log").exists() && place.path().join("walk.log").exists());
    }
}
