//! Records as tables, plots and pages.

pub mod number;
pub mod svg;
