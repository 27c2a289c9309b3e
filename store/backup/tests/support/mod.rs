//! A cluster to back up, and a store that lies.

#![allow(dead_code, reason = "each test uses a part")]

pub mod cluster;
pub mod liar;

pub use cluster::Cluster;
