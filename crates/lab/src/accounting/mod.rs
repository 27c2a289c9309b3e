//! What a run cost, read from the kernel before and after.
//!
//! ```text
//!   /proc/PID/{stat,status,io,schedstat}   processor, memory, waiting
//!   /sys/block/DEV/stat                    writes, bytes, flushes: the journal's too
//!   /proc/{stat,pressure,vmstat}           what else happened
//! ```
//!
//! `/proc/PID/io` counts pages that a process made dirty; what reaches the
//! device only the device knows, and it knows no processes: a device of one's
//! own (`--loopfs`) is the only way to an exact account.

mod block;
mod disturbance;
mod process;

pub use block::{BlockCounters, device_of, footprint_bytes};
pub use disturbance::{MachineCounters, dirty_bytes, wait_until_quiet};
pub use process::ProcessCounters;

/// Why an account cannot be read; the text names the file.
pub type Unaccounted = String;

fn read(path: &str) -> Result<String, Unaccounted> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// The number behind `label` in lines of `label number`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    let row = text.lines().find_map(|row| row.strip_prefix(label))?;
    row.split_whitespace().next()?.parse().ok()
}
