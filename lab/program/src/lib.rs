//! The laboratory: measures any two key-value stores, or any two builds of one, on the same
//! work in the same minutes, and reports "inconclusive" when the runs do not decide.
//!
//! ```text
//!   workload.toml ─► schedule ─► worker (a fresh process, a fresh directory) ─► Run
//!                       │           target ◄─ load ─► histograms                 │
//!                       │           accounting: /proc, /sys/block                ▼
//!                       └── order drawn, arms A, A', B      verify          Record = run.json.gz
//!                                                                               │
//!                                       statistics ─► verdict ─► report  ◄──────┘
//! ```
//!
//! Trade-off: every run pays for a process, a directory, a preload and a warm-up. Most of
//! the variance comes from these, so the lab repeats all of them and not only the measured
//! part.
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
