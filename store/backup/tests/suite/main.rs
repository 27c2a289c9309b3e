//! Tests of backups: what is written, and what is restored.
//!
//! One program: a crate's tests are compiled and linked once.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod beside;
mod format;
mod lying;
mod model;
mod names;
mod support;
