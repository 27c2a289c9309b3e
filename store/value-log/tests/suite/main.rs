//! Tests of the log, most of them on a simulated disk.
//!
//! One program: a crate's tests are compiled and linked once.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod append_and_read;
mod blocks;
mod caller;
mod crash;
mod device_work;
mod failures;
mod forged_frames;
mod golden;
mod growth;
mod halfway;
mod longer_frames;
mod looks;
mod reading;
mod recovery;
mod replay_at_the_seam;
mod runs;
mod segments;
mod sharing;
mod shortages;
mod support;
