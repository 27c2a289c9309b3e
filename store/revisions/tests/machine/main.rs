//! The state machine from outside: scripts, a model, restarts, hashes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod batches;
mod bootstrap;
mod children;
mod damage;
mod damaged_restart;
mod followers;
mod following;
mod hash;
mod leases;
mod limits;
mod members;
mod membership;
mod model;
mod restart;
mod script;
mod scripts;
mod snapshots;
mod store;
mod users;
mod watches;
mod wire;
