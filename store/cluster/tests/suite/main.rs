//! Tests of members: alone, and several in one process.
//!
//! One program: a crate's tests are compiled and linked once.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod alone;
mod callers;
mod commit_notice;
mod corruption;
mod crash;
mod damage;
mod forwarded;
mod full_disk;
mod hostile;
mod joining;
mod limits;
mod long_work;
mod meeting;
mod members;
mod moving;
mod node;
mod observer;
mod own_removal;
mod quota;
mod rejoining;
mod scene;
mod shortages;
mod workload;
