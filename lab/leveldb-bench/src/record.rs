//! The result of one run, written and read as a line of JSON.

use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Deserialize, Serialize)]
pub struct Record {
    pub benchmark: String,
    pub leveldb: String,
    /// The file that the locks come from.
    pub locks: String,
    pub threads: u64,
    pub operations: u64,
    /// Number of reads that found their key.
    pub found: u64,
    pub wall_seconds: f64,
    pub operations_per_second: f64,
    pub per_thread_mean: f64,
    pub slowest_thread: f64,
    pub fastest_thread: f64,
    pub jain: f64,
    pub voluntary_switches_per_operation: f64,
    pub involuntary_switches_per_operation: f64,
    pub cpu_micros_per_operation: f64,
    pub cores_used: f64,
    /// Cores that other processes used at the same time, a disturbance of the run.
    pub cores_used_by_others: f64,
}
