//! What a run cost, as counted by the kernel.

use serde::{Deserialize, Serialize};

/// One process, or several added up, over the measured part.
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
    /// The most it ever was since the process started, in bytes.
    pub resident_bytes_peak: u64,
}

/// What a block device did. `/proc/PID/io` does not know a journal's writes;
/// the device does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceWork {
    /// As in `/sys/block/vda`.
    pub device: String,
    /// Others use the device too: its numbers are an upper bound, not the
    /// target's.
    pub shared: bool,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
    /// Time that flushes took, in seconds.
    pub flush_seconds: f64,
    /// Time in which the device had anything to do, in seconds.
    pub busy_seconds: f64,
}

impl ProcessCosts {
    /// User and system.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_user_seconds + self.cpu_system_seconds
    }

    /// Adds what another process of the same side cost.
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
