//! The lab's proof of itself: simulated experiments with known truths.
//!
//! Everything runs in virtual time, from seeds, with the same plans and verdicts as real
//! experiments: the proof takes a second and needs no device. It is part of the tests, and
//! `inkstone-lab selftest` prints it.

pub mod clients;
pub mod experiment;
pub mod machine;
pub mod proofs;
pub mod targets;
pub mod verb;
