//! Tests of the judges.
//!
//! One program: a crate's tests are compiled and linked once.

mod brute_force;
mod restarts;
mod rules;
