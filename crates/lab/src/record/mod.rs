//! What a measurement leaves behind: everything that is needed to judge it
//! again, without the machine that it ran on.
//!
//! ```text
//!   Record ─┬─ tool, command line, environment, schedule
//!           └─ runs ── one run of one target under one workload: who, what,
//!                      when, how long each answer took, what it cost, what
//!                      disturbed it, whether the data was there afterwards
//! ```
//!
//! A record is complete or partial and says which: runs are added one at a
//! time, and the file is replaced whole after each of them, so that it can be
//! read whenever it is looked at.

mod costs;
mod environment;
mod file;
mod histogram;
mod identity;
mod outcome;
mod run;

pub use costs::{DeviceWork, ProcessCosts};
pub use environment::{BlockDevice, Disturbance, Environment};
pub use file::Unreadable;
pub use histogram::{Histogram, Tally, Undecodable};
pub use identity::{Binary, TargetIdentity};
pub use outcome::{
    DurabilityJudgement, Judged, Outcome, Steadiness, Taint, TaintKind, Verification,
};
pub use run::{Cell, Fairness, Interval, Kind, KindResult, LoadResult, Run, SearchStep};

use serde::{Deserialize, Serialize};

/// Raised when a field changes its meaning; readers refuse what they do not know.
pub const FORMAT: u32 = 1;

/// The arm that everything else is compared with.
pub const ARM_A: &str = "A";
/// A second copy of A: what differs between the two is noise.
pub const ARM_A_AGAIN: &str = "A'";
/// The other side of a comparison.
pub const ARM_B: &str = "B";
/// The null target: the ceiling of the generator itself in a cell.
pub const ARM_NULL: &str = "null";

/// What `run.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// What was called: `run`, `ab`, `noise`, `heatmap`, `seed 001`, ...
    pub verb: String,
    /// For people: what was measured.
    pub title: String,
    /// The words that were typed.
    pub command_line: Vec<String>,
    /// Version and commit of the lab that measured.
    pub tool: String,
    /// False while runs are missing: interrupted, or out of time.
    pub complete: bool,
    /// Why it is not complete, for people.
    #[serde(default)]
    pub incomplete_because: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// What all draws came from: order of runs, keys, values.
    pub seed: u64,
    /// The machine and its device.
    pub environment: Environment,
    /// What was planned, in the order in which it was to run.
    pub schedule: Vec<Planned>,
    /// What ran, in the order in which it ran; repeated runs stay beside those
    /// that they replace.
    pub runs: Vec<Run>,
}

/// One place in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Which cell, by its name.
    pub cell: String,
    /// Which arm: [`ARM_A`], [`ARM_A_AGAIN`], [`ARM_B`], [`ARM_NULL`], or a
    /// target's name when several are shown side by side.
    pub arm: String,
    /// Runs with the same cell and pair belong together: adjacent in time, from
    /// the same seed.
    pub pair: u32,
    /// Which point of the experiment the cell is, from 0, in the order in which
    /// people asked for them: runs come in a drawn one.
    #[serde(default)]
    pub point: u32,
}

impl Record {
    /// The runs that count: measured, and not replaced by a repetition.
    pub fn valid_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.counts())
    }

    /// Cells that were run, in the order in which people asked for them.
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
        // Stable: without a plan they stay as they were run.
        cells.sort_by_cached_key(point);
        cells
    }
}
