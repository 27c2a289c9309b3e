//! Measures this server and etcd on the same machine with etcd's own benchmark.
//!
//! ```text
//!   scene 1   round 1: ours etcd   round 2: etcd ours   round 3: ours etcd ...
//!   scene 2   ...
//! ```
//!
//! Each run gets a fresh process and a fresh directory, and the order changes
//! with every round, so that neither side always runs after the
//! other. A record gives the median, the whole spread and the ratio. A
//! ratio is marked if the spreads overlap, because then it shows nothing.
//!
//! The benchmark is a closed loop on the same machine: its own processor time
//! is part of what is measured, and equal for both sides.

mod benchmark;
mod record;
mod scenes;

use std::path::{Path, PathBuf};

use crate::{
    etcd,
    group::Group,
    machine::Machine,
    process::{Outcome, inkstone_binary},
    puts,
};
use benchmark::Summary;
use scenes::{Scene, Step, Target};

#[derive(clap::Args)]
pub struct Options {
    /// Runs of each side in each scene
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Divides the work of each step; for trying things out
    #[arg(long, default_value_t = 1)]
    divide: u64,
    /// Only the scenes with this text in their name
    #[arg(long, default_value = "")]
    only: String,
    /// The server to measure [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where the servers keep their data [default: a temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where the record goes [default: lab/records]
    #[arg(long)]
    records: Option<PathBuf>,
}

/// One step on one side in one round.
pub struct Row {
    pub scene: &'static str,
    pub step: &'static str,
    pub side: &'static str,
    pub round: usize,
    pub summary: Summary,
    /// Of all members together, without the benchmark, in microseconds.
    pub processor_us_per_op: f64,
    /// Of all members together, after the step.
    pub resident_mib: f64,
}

pub const SIDES: [&str; 2] = ["inkstone", "etcd"];

pub fn run(options: &Options) -> Outcome {
    let binaries = [
        inkstone_binary(options.binary.as_deref())?,
        etcd::binary("etcd")?,
    ];
    let machine = Machine::here()?;
    let mut rows = Vec::new();
    for scene in scenes::all(options.divide) {
        if !scene.name.contains(&options.only) {
            continue;
        }
        for round in 0..options.rounds {
            for turn in 0..SIDES.len() {
                let side = (turn + round) % SIDES.len();
                println!("{}, round {}, {}", scene.name, round + 1, SIDES[side]);
                rows.extend(play(&scene, &binaries[side], SIDES[side], round, options)?);
            }
        }
    }
    record::write(&machine, &rows, options.records.as_deref())
}

/// One scene on fresh servers.
fn play(
    scene: &Scene,
    binary: &Path,
    side: &'static str,
    round: usize,
    options: &Options,
) -> Outcome<Vec<Row>> {
    let folder = match &options.directory {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let flags = [
        // The benchmark's largest scene must not meet a quota on either side.
        format!("--quota-backend-bytes={}", 8_u64 << 30),
        "--log-level=error".to_owned(),
    ];
    let directories: Vec<PathBuf> = (0..scene.members)
        .map(|number| folder.path().join(format!("data{number}")))
        .collect();
    // Otherwise this run would pay for writes that the last one left.
    rustix::fs::sync();
    let group = Group::start(binary, &directories, &flags)?;
    // The key that point reads ask for.
    let runtime = tokio::runtime::Runtime::new()?;
    let url = group.leader().url();
    runtime.block_on(puts::puts(&url, 1, 1, scenes::VALUE_BYTES))?;
    group.settle()?;
    let mut rows = Vec::new();
    for step in &scene.steps {
        let endpoints = match step.target {
            Target::Leader => group.leader().endpoint(),
            Target::AllMembers => group.endpoints(),
        };
        let before = group.processor_seconds()?;
        let summary = benchmark::run(&endpoints, step)?;
        let spent = group.processor_seconds()? - before;
        let row = Row {
            scene: scene.name,
            step: step.name,
            side,
            round,
            summary,
            processor_us_per_op: spent * 1e6 / step.operations as f64,
            resident_mib: group.resident_mib()?,
        };
        println!("  {}", record::line(&row));
        if step.is_measured {
            rows.push(row);
        }
    }
    group.stop()?;
    Ok(rows)
}
