//! Costs of a run, as the kernel counts them.

use serde::{Deserialize, Serialize};

/// Costs of one process, or of several added up, over the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessCosts {
    /// Processor time outside the kernel, in seconds.
    pub cpu_user_seconds: f64,
    /// Processor time in the kernel, in seconds.
    pub cpu_system_seconds: f64,
    /// Time that runnable threads waited for a processor, in seconds.
    pub run_queue_seconds: f64,
    /// Times that threads gave up the processor to wait.
    pub voluntary_switches: u64,
    /// Times that threads were made to give up the processor.
    pub involuntary_switches: u64,
    /// Bytes handed to `read` and its kin, also from the page cache.
    pub read_call_bytes: u64,
    /// Bytes handed to `write` and its kin, sockets included.
    pub write_call_bytes: u64,
    /// Memory in RAM when the measured part ended, in bytes.
    pub resident_bytes: u64,
    /// Greatest memory in RAM since the process started, in bytes.
    pub resident_bytes_peak: u64,
}

/// Work of a block device. It includes the writes of a file system's journal, which
/// `/proc/PID/io` does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceWork {
    /// Name in `/sys/block`, such as `vda`.
    pub device: String,
    /// Other processes use the device too: its numbers are an upper bound of the target's.
    pub shared: bool,
    /// Write requests.
    pub writes: u64,
    pub written_bytes: u64,
    /// Read requests.
    pub reads: u64,
    pub read_bytes: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
    /// Time that flushes took, in seconds.
    pub flush_seconds: f64,
    /// Time in which the device was busy, in seconds.
    pub busy_seconds: f64,
}

impl ProcessCosts {
    /// User and system time together, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_user_seconds + self.cpu_system_seconds
    }

    /// Adds the costs of another process of the same side.
    pub fn add(&mut self, other: &ProcessCosts) {
        self.cpu_user_seconds += other.cpu_user_seconds;
        self.cpu_system_seconds += other.cpu_system_seconds;
        self.run_queue_seconds += other.run_queue_seconds;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.read_call_bytes += other.read_call_bytes;
        self.write_call_bytes += other.write_call_bytes;
        self.resident_bytes += other.resident_bytes;
        self.resident_bytes_peak += other.resident_bytes_peak;
    }
}
