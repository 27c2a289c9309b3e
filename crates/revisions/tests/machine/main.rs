//! The state machine from outside: scripts, a model, restarts, hashes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod batches;
mod hash;
mod leases;
mod limits;
mod model;
mod restart;
mod script;
mod scripts;
mod store;
mod watches;
