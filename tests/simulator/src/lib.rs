//! Deterministic simulation of a cluster: one thread, with simulated disks, network and
//! clocks.
//!
//! ```text
//!            seed
//!             │ decides everything: faults, delays, operations of clients, and
//!             ▼ the contents of a disk after a crash
//!   clients ──► Member ─┐                 ┌─ Member    real Replica, state machine,
//!               Member ─┼── Network ──────┤            engine and log
//!               Member ─┘  loses, doubles, delays
//!                          and reorders messages
//!             │ after every step
//!             ▼
//!   Judge: one history, one leader in a term, no acknowledged write is lost,
//!          reads and writes agree with real time, no lease ends early
//! ```
//!
//! The members are the objects that run in production, without their threads: the simulation
//! decides when the log is flushed. A run is a pure function of its seed and its [`Faults`];
//! a test that fails prints the seed that repeats the failure.

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
