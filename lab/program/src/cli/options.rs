//! Options that all measuring verbs share.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::workloads;
use crate::report::number::{counted, grouped};
use crate::schedule::{Arm, Experiment, LoopFs, Point};
use crate::verdict::FailOn;
use crate::workload::{DurabilityLevel, KeyKind, KeySpec, Span, ValueLength, Warmup, Workload};

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub struct MeasureOptions {
    /// Runs of each side [default: the verb's own number, and with --budget as many more as fit]
    #[arg(long, value_name = "COUNT", value_parser = at_least_one::<usize>)]
    pub pairs: Option<usize>,
    /// Begin nothing that would not end in this time: 20m, 2h
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// What order, keys, values and arrivals are drawn from [default: the clock]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where the targets keep their data [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
    /// A file system of its own for each run: ext4:2G, xfs:2G (needs root)
    #[arg(long, value_name = "KIND:SIZE")]
    pub loopfs: Option<LoopFs>,
    /// Where the results go [default: lab-results/<time>-<verb>]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Threads that ask servers [default: as many as processors]
    #[arg(long, value_name = "COUNT", value_parser = at_least_one::<u32>)]
    pub threads: Option<u32>,
    /// Keys to look up after each run; 0 verifies nothing
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub verify_keys: u64,
    /// How long to wait for a quiet machine before each run
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub quiet_wait: Span,
    /// Do not repeat runs that were disturbed
    #[arg(long)]
    pub keep_disturbed: bool,
    /// What ends the process with another code than 0
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub fail_on: FailOn,
}

/// Choice of the workload, and changes to it.
#[derive(Args, Clone, Debug)]
pub struct WorkloadOptions {
    /// A workload file, or the name of one that comes with the lab
    #[arg(long, short, value_name = "FILE|NAME", default_value = "put")]
    pub workload: String,
    #[command(flatten)]
    pub changes: Changes,
}

/// Changes to a workload.
#[derive(Args, Clone, Debug, Default)]
pub struct Changes {
    /// Instead of the workload's: how many keys
    #[arg(long)]
    pub keys: Option<u64>,
    /// Instead of the workload's: one number of clients, or several with commas
    #[arg(long, value_delimiter = ',', value_name = "COUNT")]
    pub clients: Vec<u32>,
    /// Instead of the workload's: connections to servers
    #[arg(long, value_name = "COUNT")]
    pub connections: Option<u32>,
    /// Instead of the workload's: fixed:256, uniform:200..1023
    #[arg(long, value_name = "LENGTH")]
    pub value: Option<ValueLength>,
    /// Instead of the workload's: durable, os, none
    #[arg(long, value_enum, hide_possible_values = true)]
    pub durability: Option<DurabilityLevel>,
    /// Instead of the workload's: length of the measured part
    #[arg(long, value_name = "TIME")]
    pub measure: Option<Span>,
    /// Instead of the workload's: 5s, or auto,max=30s
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<Warmup>,
    /// etcd's benchmark program as the clients of servers, which `cargo xtask etcd` builds
    #[arg(long, value_name = "PATH")]
    pub generator: Option<PathBuf>,
}

/// A measured part has at least this many intervals, and so points in its plot.
const INTERVALS_MIN: f64 = 4.0;

/// Parses a number that must be at least 1.
fn at_least_one<T: FromStr + From<u8> + PartialOrd>(text: &str) -> Result<T, String> {
    let count = text.parse().ok().filter(|count| *count >= T::from(1));
    count.ok_or_else(|| format!("`{text}`: write a number, at least 1"))
}

impl WorkloadOptions {
    /// Reads the workload and applies the changes.
    pub fn resolve(&self) -> Result<Workload, String> {
        let workload = workloads::find(&self.workload)?;
        self.changes.applied(workload)
    }
}

impl Changes {
    /// The changes in words, for titles: keys, values, durability, clients, connections.
    /// Empty where none of these is changed.
    pub fn words(&self) -> String {
        let clients: Vec<String> = self.clients.iter().map(u32::to_string).collect();
        let clients = match self.clients.as_slice() {
            [] => None,
            [one] => Some(counted(u64::from(*one), "client")),
            _ => Some(format!("{} clients", clients.join(", "))),
        };
        let level = self.durability.map(|level| match level {
            DurabilityLevel::Durable => "durable puts",
            DurabilityLevel::Os => "puts in the page cache",
            DurabilityLevel::None => "puts without a promise",
        });
        let changed = [
            self.keys
                .map(|keys| format!("{} keys", grouped(keys as f64))),
            self.value.map(|value| match value {
                ValueLength::Fixed(bytes) => format!("values of {bytes} bytes"),
                other => format!("lengths of values {other}"),
            }),
            level.map(str::to_owned),
            clients,
            self.connections
                .map(|count| counted(u64::from(count), "connection")),
            self.generator
                .as_ref()
                .map(|_| "etcd's benchmark as clients".to_owned()),
        ];
        let changed: Vec<String> = changed.into_iter().flatten().collect();
        changed.join(", ")
    }

    /// The workload with these changes. Fails where the result is not valid.
    pub fn applied(&self, mut workload: Workload) -> Result<Workload, String> {
        change(&mut workload.load.keys, self.keys);
        change(&mut workload.clients.connections, self.connections);
        change(&mut workload.load.value.length, self.value);
        change(&mut workload.durability.level, self.durability);
        change(&mut workload.time.warmup, self.warmup);
        if !self.clients.is_empty() {
            workload.clients.clients.clone_from(&self.clients);
        }
        if let Some(measure) = self.measure {
            workload.time.measure = measure;
            let longest = measure.as_seconds() / INTERVALS_MIN;
            let interval = workload.time.interval.as_seconds().min(longest).max(0.01);
            workload.time.interval = Span::seconds(interval);
        }
        if let Some(generator) = &self.generator {
            workload.clients.generator = Some(generator.clone());
            // A key that is a word of a command line.
            workload.load.key = KeySpec {
                kind: KeyKind::DbBench,
                size: 0,
            };
        }
        let checked = workload.check();
        checked.map_err(|what| format!("workload {}: {what}", workload.name))?;
        Ok(workload)
    }
}

/// Sets a field where its option is given.
fn change<T>(field: &mut T, option: Option<T>) {
    if let Some(value) = option {
        *field = value;
    }
}

impl MeasureOptions {
    /// The seed of all random draws: the option's, or one drawn from the clock.
    pub fn seed(&self) -> u64 {
        // Short enough to be typed.
        self.seed
            .unwrap_or_else(|| crate::workload::mixed(crate::worker::unix_ms()) >> 32)
    }

    /// The folder in which runs keep their data.
    pub fn parent(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// An experiment of these points and arms. It has `pairs` repetitions unless the user
    /// gave a number, and more where a budget without a number leaves room for them.
    pub fn experiment(&self, points: Vec<Point>, arms: Vec<Arm>, pairs: usize) -> Experiment {
        let budget = self.budget.map(Span::as_duration);
        let repetitions = self.pairs.unwrap_or(pairs);
        let repetitions_max = match (self.pairs, budget) {
            // The budget decides.
            (None, Some(budget)) => pairs_in(budget, &points, arms.len()).max(repetitions),
            _ => repetitions,
        };
        Experiment {
            points,
            arms,
            repetitions,
            repetitions_max,
            budget,
            seed: self.seed(),
            parent: self.parent(),
            loop_fs: self.loopfs,
            threads: self.threads.unwrap_or_else(threads),
            verify_keys_max: self.verify_keys,
            quiet_seconds_max: self.quiet_wait.as_seconds(),
            repeat_disturbed: !self.keep_disturbed,
        }
    }
}

/// An upper bound of the repetitions that fit into the budget: it counts the measured
/// parts alone.
fn pairs_in(budget: Duration, points: &[Point], arms: usize) -> usize {
    let seconds = |point: &Point| point.workload.time.measure.as_seconds();
    let all: f64 = points.iter().map(seconds).sum();
    (budget.as_secs_f64() / (all * arms as f64)).ceil() as usize
}

fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
