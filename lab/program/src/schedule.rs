//! The schedule of runs, and its execution.
//!
//! ```text
//!   plan           pure: cells, arms, repetitions, in random orders
//!   point          a cell with its workload; a side with its target
//!   check          whether the targets exist, before anything is created
//!   error          reasons why an experiment cannot begin or go on
//!   experiment     runs a plan: a directory and a worker for each run, the record
//!   run_directory  a fresh directory, or a file system of its own
//!   leftovers      removes directories of lab processes that were killed
//!   memory_group   limits the memory of a run
//!   interrupt      Ctrl-C
//!   progress       the line that shows progress on the terminal
//! ```

pub mod check;
pub mod error;
pub mod experiment;
pub mod interrupt;
pub mod leftovers;
pub mod memory_group;
pub mod plan;
pub mod point;
pub mod progress;
pub mod run_directory;

pub use error::Error;
pub use experiment::Experiment;
pub use plan::{Planned, RunPlan};
pub use point::{Arm, Point};
pub use run_directory::{FileSystem, LoopFs};
