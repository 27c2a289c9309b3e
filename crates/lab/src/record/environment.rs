//! The machine, and what else happened on it.

use serde::{Deserialize, Serialize};

/// What a number must name to mean anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Day of the measurement, as in `2026-11-21`, UTC.
    pub date: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors that the lab may use.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// What the machine runs on, when it is virtual; empty when nobody says.
    pub virtualization: String,
    /// Frequency governor of the first processor; empty when there is none.
    pub governor: String,
    /// Commit of the working directory's repository, with `-dirty`; empty
    /// outside of one.
    pub commit: String,
    /// File system of the data, as in `ext4`.
    pub file_system: String,
    /// Device of the data; none when it has none (tmpfs).
    pub device: Option<BlockDevice>,
    /// Limits of the control group, for people; empty without.
    pub limits: Vec<String>,
    /// What makes numbers from here doubtful, for people.
    pub warnings: Vec<String>,
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// As in `/sys/block/vda`.
    pub name: String,
    /// `write back` or `write through`.
    pub cache: String,
    /// Whether a write can be made durable without a flush (FUA).
    pub forced_unit_access: bool,
    /// The kernel's scheduler for it.
    pub scheduler: String,
    /// Whether it turns.
    pub rotational: bool,
    /// A file behind a loop device, made for this measurement.
    pub private: bool,
}

/// What else happened on the machine during the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Share of all processor time that the host gave to others.
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
    /// How long the lab waited for the machine to become quiet, in seconds.
    pub waited_seconds: f64,
    /// It did not become quiet in the time that there was.
    pub was_not_quiet: bool,
}
