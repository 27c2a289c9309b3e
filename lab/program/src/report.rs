//! Records as tables, plots and pages.
//!
//! ```text
//!   Record ─┬─ sides, quantity ─► results ─┐            ┌─► terminal
//!           ├─ verdicts, noise ────────────┼─► words ───┼─► markdown (summary.md)
//!           ├─ published ──────────────────┘            ├─► page (report.html)
//!           ├─ plots ──► svg ───────────────────────────┘
//!           ├─ readme (between markers)
//!           ├─ runs_csv (runs.csv)
//!           ├─ share (a picture for a README)
//!           └─ etcd_csv ◄─► etcd's rw-heatmap CSV
//!   many records ──► trends ──► index (a page of all records)
//! ```
//!
//! The texts are in `templates/`, one for each output; `words` has the variables that they
//! share. All reports are made from the record alone, so that they can be made again on any machine.

mod error;

pub mod across;
pub mod alike;
pub mod etcd_csv;
pub mod files;
pub mod index;
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
pub mod share;
pub mod sides;
pub mod svg;
mod template;
pub mod terminal;
pub mod trends;
pub mod verdicts;
mod words;

pub use error::ReportError;
