//! Costs of a run, as differences of kernel counters read before and after it.
//!
//! ```text
//!   /proc/PID/{stat,status,io,schedstat}   processor, memory, waiting
//!   /sys/block/DEV/stat                    writes, bytes, flushes, the journal's included
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
pub use disturbance::{MachineCounters, dirty_bytes, wait_until_quiet};

/// Error text for counters that cannot be read; it names the file.
pub type Unaccounted = String;

fn read(path: &str) -> Result<String, Unaccounted> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// The number behind `label` in lines of `label number`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    let row = text.lines().find_map(|row| row.strip_prefix(label))?;
    row.split_whitespace().next()?.parse().ok()
}
