//! Which run comes when, and doing it.
//!
//! ```text
//!   plan        pure: cells, arms, repetitions, in drawn orders
//!   point       a cell with its workload; a side with its target
//!   check       whether the sides are there, before anything is made
//!   experiment  runs a plan: a ground for each run, a worker, the record
//!   left        what labs that were killed have left
//!   ground      a fresh directory, or a file system of its own
//!   interrupt   Ctrl-C
//!   progress    what people see meanwhile
//! ```

pub mod check;
pub mod experiment;
pub mod ground;
pub mod interrupt;
pub mod left;
pub mod plan;
pub mod point;
pub mod progress;

pub use experiment::Experiment;
pub use ground::{FileSystem, LoopFs};
pub use plan::{Plan, Planned};
pub use point::{Arm, Point};
