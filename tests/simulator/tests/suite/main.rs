//! Whole clusters in one thread, from a seed.
//!
//! One program: a crate's tests are compiled and linked once.

mod chosen;
mod mutants;
mod power;
mod seeds;
mod shortages;
