//! A cluster in one thread, on simulated disks, network and clocks.
//!
//! ```text
//!            seed
//!             │ decides everything: faults, delays, what clients do, what a
//!             ▼ crash leaves on a disk
//!   clients ──► Member ─┐                 ┌─ Member    real Replica, state machine,
//!               Member ─┼── Network ──────┤            engine and log
//!               Member ─┘  lost, doubled, late
//!                          and out of order
//!             │ after every step
//!             ▼
//!   Judge: one history, one leader in a term, nothing acknowledged is lost,
//!          reads and writes in the order of real time, no lease ends early
//! ```
//!
//! The members are the objects that run in production, but for their threads:
//! the log is flushed when the simulation says so. A run is a pure function of
//! its seed and its [`Faults`]; a failure is told with the seed that shows it
//! again.

mod bad_memory;
mod clients;
mod faults;
mod hostile;
mod isolation;
mod judge;
mod leases;
mod member;
mod network;
mod operator;
mod power;
mod shortages;
mod world;

pub use faults::{Faults, Keeping, Work};
pub use judge::Verdict;
pub use world::{World, run};
