//! Records as tables, plots and pages.
