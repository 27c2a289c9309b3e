//! Costs of a run, as differences of kernel counters read before and after it.
//!
//! ```text
//!   /proc/PID/{stat,status,io,schedstat}   processor, memory, waiting
//!   /proc/diskstats                        writes, bytes, flushes, the journal's included
//!   /proc/{stat,pressure,vmstat}           load of everything else on the machine
//! ```
//!
//! `/proc/PID/io` counts the pages that a process made dirty. Only the device counts the
//! bytes that reach it, and it does not tell processes apart. Exact counts therefore need a
//! device that nothing else uses (`--loopfs`).

mod block;
mod disturbance;
mod process;

pub use block::{BlockCounters, device_of, footprint_bytes};
pub use disturbance::{
    FOREIGN_SHARE_MAX, MachineCounters, STEAL_SHARE_MAX, dirty_bytes, wait_until_quiet,
};
pub use process::anonymous_bytes;
