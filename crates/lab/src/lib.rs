//! The benchmark laboratory.

pub mod schedule;
pub mod selftest;
pub mod statistics;
pub mod verdict;
