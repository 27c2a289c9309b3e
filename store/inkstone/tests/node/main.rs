//! Three members of a cluster in one process, over real connections.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod beginning;
mod joining;
mod leadership;
mod reading;
mod three;
mod writing;
