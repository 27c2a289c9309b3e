//! The laboratory: measures any two key-value stores, or any two builds of
//! one, on the same work in the same minutes, and says "inconclusive" when that
//! is the truth.
//!
//! ```text
//!   workload.toml ─► schedule ─► worker (a fresh process, a fresh directory) ─► Run
//!                       │           target ◄─ load ─► histograms                 │
//!                       │           accounting: /proc, /sys/block                ▼
//!                       └── order drawn, arms A, A', B      verify          Record = run.json
//!                                                                               │
//!                                       statistics ─► verdict ─► report  ◄──────┘
//! ```
//!
//! Trade-off: every run pays for a process, a directory, a preload and a
//! warm-up. That is where variance between runs lives, so that is where the
//! repetition has to be.
//!
//! The crate is a library and a binary, so that a worker with more targets
//! (engines that need foreign libraries) can be built without the lab
//! depending on them.
#![expect(
    clippy::disallowed_methods,
    reason = "the laboratory measures real clocks, real disks and real processes"
)]

pub mod accounting;
pub mod cli;
pub mod doctor;
pub mod heatmap_csv;
pub mod load;
pub mod record;
pub mod report;
pub mod schedule;
pub mod selftest;
pub mod statistics;
pub mod targets;
pub mod verdict;
pub mod verify;
pub mod worker;
pub mod workload;
