//! A cluster to back up, and a store that lies.

pub mod cluster;
pub mod liar;

pub use cluster::Cluster;
