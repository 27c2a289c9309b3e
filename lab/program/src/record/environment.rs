//! The machine of a measurement, and disturbances on it.

use serde::{Deserialize, Serialize};

/// The conditions of a measurement; a number is meaningless without them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Day of the measurement, as in `2026-11-21`, UTC.
    pub date: String,
    pub processor: String,
    /// Processors that the lab may use.
    pub cores: u32,
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Kind of virtualization, from `systemd-detect-virt`; empty when it is unknown.
    pub virtualization: String,
    /// Frequency governor of the first processor; empty when there is none.
    pub governor: String,
    /// Commit of the working directory's repository, with `-dirty`; empty
    /// outside of one.
    pub commit: String,
    /// File system of the data, as in `ext4`.
    pub file_system: String,
    /// Device of the data; `None` for a file system without one (tmpfs).
    pub device: Option<BlockDevice>,
    /// Limits of the control group, as texts for reports; empty where there are none.
    pub limits: Vec<String>,
    /// Conditions that make numbers of this machine doubtful, as texts for reports.
    pub warnings: Vec<String>,
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Name in `/sys/block`, such as `vda`.
    pub name: String,
    /// `write back` or `write through`.
    pub cache: String,
    /// Whether a write can be made durable without a flush (FUA).
    pub forced_unit_access: bool,
    /// The kernel's scheduler for it.
    pub scheduler: String,
    pub rotational: bool,
    /// The device is a loop device that was made for this measurement; nothing else uses it.
    pub private: bool,
}

/// Load on the machine besides the run, during the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Share of all processor time that the host gave to other virtual machines.
    pub steal_share: f64,
    /// Share of all processor time that other processes used.
    pub foreign_share: f64,
    /// Share of the time in which some task waited for a processor (PSI).
    pub cpu_pressure_share: f64,
    /// Share of the time in which some task waited for the disk (PSI).
    pub io_pressure_share: f64,
    /// Share of the time in which some task waited for memory (PSI).
    pub memory_pressure_share: f64,
    /// Times that the control group was throttled.
    pub throttled: u64,
    /// Pages that were swapped in or out.
    pub swapped_pages: u64,
    /// Bytes that were waiting to be written when the run began.
    pub dirty_bytes_before: u64,
    /// Time that the lab waited for the machine to become quiet, in seconds.
    pub waited_seconds: f64,
    /// The machine did not become quiet in the time allowed.
    pub was_not_quiet: bool,
}
