//! The benchmark laboratory.

pub mod schedule;
pub mod statistics;
pub mod verdict;
