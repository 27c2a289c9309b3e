//! Records as tables, plots and pages.
//!
//! ```text
//!   Record ─┬─ sides, quantity ─► results ─┬─► terminal
//!           ├─ verdicts, noise ────────────┼─► markdown (summary.md)
//!           ├─ plots ──► svg ──────────────┼─► page (report.html)
//!           ├─ runs_csv (runs.csv)         └─► readme (between markers)
//!           ├─ published (the predecessor's figures beside ours, in all three)
//!           └─ etcd_csv ◄─► etcd's rw-heatmap CSV
//! ```
//!
//! All reports are made from the record alone, so that they can be made again on any machine.

mod error;

pub mod across;
pub mod etcd_csv;
pub mod files;
pub mod markdown;
pub mod noise;
pub mod number;
pub mod page;
pub mod plots;
pub mod provenance;
pub mod published;
pub mod quantity;
pub mod readme;
pub mod results;
pub mod runs_csv;
pub mod sides;
pub mod svg;
pub mod terminal;
pub mod verdicts;

pub use error::ReportError;
