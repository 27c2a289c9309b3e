//! The record of a measurement: everything that is needed to judge it again, without the
//! machine that it ran on.
//!
//! ```text
//!   Record ─┬─ tool, command line, environment, schedule
//!           └─ runs ── one run of one target under one workload: identity, load,
//!                      time, latencies, costs, disturbances, and whether the
//!                      acknowledged data was there afterwards
//! ```
//!
//! A record says whether it is complete or partial. Runs are added one at a time, and the
//! file is replaced whole after each of them, so that it can be read at any time.

mod costs;
mod environment;
mod file;
mod histogram;
mod identity;
mod outcome;
mod run;
mod space;

pub use costs::{DeviceWork, ProcessCosts};
pub use environment::{BlockDevice, Disturbance, Environment};
pub use file::{FILE, FILE_PLAIN, Unreadable, replace};
pub use histogram::{Histogram, Undecodable};
pub use identity::{Binary, TargetIdentity};
pub use outcome::{
    DurabilityJudgement, Judged, Outcome, Steadiness, Taint, TaintKind, Verification,
};
pub use run::{Cell, Fairness, Interval, Kind, KindResult, LoadResult, Run, SearchStep};
pub use space::{Space, SpaceSample};

use serde::{Deserialize, Serialize};

/// Version of the format: raised when a field changes its meaning. Readers refuse other
/// versions.
pub const FORMAT: u32 = 1;

/// The arm that others are compared with.
pub const ARM_A: &str = "A";
/// A second copy of A: differences between the two are noise.
pub const ARM_A_AGAIN: &str = "A'";
/// The other side of a comparison.
pub const ARM_B: &str = "B";
/// The null target: the ceiling of the generator itself in a cell.
pub const ARM_NULL: &str = "null";

/// The contents of [`FILE`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] of the lab that wrote the record.
    pub format: u32,
    /// The verb that measured: `run`, `ab`, `noise`, `heatmap`, `seed 001`, ...
    pub verb: String,
    /// Title of the measurement, for reports.
    pub title: String,
    /// The command line, with file names instead of paths.
    pub command_line: Vec<String>,
    /// Version and commit of the lab that measured.
    pub tool: String,
    /// False while runs are missing: interrupted, or out of time.
    pub complete: bool,
    /// The reason why the record is not complete, for reports.
    #[serde(default)]
    pub incomplete_because: Option<String>,
    /// Start of the measurement, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Seed of all draws: order of runs, keys, values, arrivals.
    pub seed: u64,
    /// The machine and its device.
    pub environment: Environment,
    /// The planned runs, in their planned order.
    pub schedule: Vec<Planned>,
    /// The runs in the order of time. A run that was replaced by a repetition stays.
    pub runs: Vec<Run>,
}

/// One planned run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Name of the cell.
    pub cell: String,
    /// Name of the arm: [`ARM_A`], [`ARM_A_AGAIN`], [`ARM_B`], [`ARM_NULL`], or a target's
    /// name when several are shown side by side.
    pub arm: String,
    /// Number of the repetition. Runs with the same cell and pair are adjacent in time and
    /// have the same seed.
    pub pair: u32,
    /// Index of the cell among the points of the experiment, from 0, in the order in which
    /// the user named them (runs have a random order).
    #[serde(default)]
    pub point: u32,
}

impl Record {
    /// Results of every run, by kind of operation.
    pub fn kind_results(&mut self) -> impl Iterator<Item = &mut KindResult> {
        let loads = self.runs.iter_mut().map(|run| &mut run.load);
        loads.flat_map(|load| load.kinds.values_mut())
    }

    /// The runs that count: measured, and not replaced by a repetition.
    pub fn valid_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.counts())
    }

    /// The runs of a cell that count.
    pub fn valid_runs_of(&self, cell: &Cell) -> impl Iterator<Item = &Run> {
        self.valid_runs().filter(|run| run.cell.name == cell.name)
    }

    /// Cells that were run, in the order in which the user named them.
    pub fn cells(&self) -> Vec<&Cell> {
        let mut cells: Vec<&Cell> = Vec::new();
        for run in &self.runs {
            if !cells.iter().any(|cell| cell.name == run.cell.name) {
                cells.push(&run.cell);
            }
        }
        let point = |cell: &&Cell| {
            let planned = self.schedule.iter().find(|it| it.cell == cell.name);
            planned.map(|planned| planned.point)
        };
        // The sort is stable: without a schedule, cells stay in the order of their runs.
        cells.sort_by_cached_key(point);
        cells
    }
}
